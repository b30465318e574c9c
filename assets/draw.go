package assets

import (
	"image"
	"image/color"
	"math"
)

// samples is how many times a pixel is looked at in each direction; the share
// that hits the shape becomes its opacity, which smooths the edges.
const samples = 6

// finish is how a shape is made ready for the place where it is shown.
type finish int

const (
	// plain: coloured, for panels and notifications.
	plain finish = iota
	// rimmed: coloured with a thin white rim, for menus: on the blue bar of a
	// selected row none of the colours would stand out without it.
	rimmed
	// template: black, with the sign cut out. macOS colours it by itself.
	template
)

// rim is the width of a white rim, on a canvas of 2.
const rim = 0.10

// Image draws shape s, size pixels wide and high, with straight (not
// premultiplied) alpha.
func Image(s Shape, size int) *image.NRGBA { return drawShape(s, size, plain) }

func drawShape(s Shape, size int, f finish) *image.NRGBA {
	return paint(size, func(p point) (color.NRGBA, bool) {
		scale := 1.0
		if f == rimmed {
			scale = outer / (outer - rim) // makes room for the rim
		}
		q := point{p.x * scale, p.y * scale}
		body, sign := s.covers(q)
		switch {
		case f == template:
			return color.NRGBA{A: 0xff}, body && !sign
		case body && sign:
			return white(), true
		case body:
			return s.Colour(), true
		case f == rimmed:
			return white(), nearby(s, q, rim*scale)
		}
		return color.NRGBA{}, false
	})
}

// nearby reports whether s covers a point at distance d from p.
func nearby(s Shape, p point, d float64) bool {
	const directions = 12
	for i := range directions {
		sin, cos := math.Sincos(float64(i) * 2 * math.Pi / directions)
		if body, _ := s.covers(point{p.x + d*cos, p.y + d*sin}); body {
			return true
		}
	}
	return false
}

// AppImage draws the app's icon: a white funnel on a blue tile.
func AppImage(size int) *image.NRGBA {
	return paint(size, func(p point) (color.NRGBA, bool) {
		if coversFunnel(p) {
			return white(), true
		}
		return tileBlue(), coversTile(p)
	})
}

// coversTile is a square with round corners.
func coversTile(p point) bool {
	const half, corner = 0.94, 0.36
	dx := max(0, math.Abs(p.x)-(half-corner))
	dy := max(0, math.Abs(p.y)-(half-corner))
	return math.Hypot(dx, dy) < corner
}

// coversFunnel is a funnel seen from the side: mouth, cone and spout.
func coversFunnel(p point) bool {
	const mouth, neck, bottom = -0.34, 0.22, 0.68
	switch {
	case p.distance(point{-0.56, -0.50}, point{0.56, -0.50}) < 0.10:
		return true
	case p.y > mouth && p.y <= neck:
		t := (p.y - mouth) / (neck - mouth)
		return math.Abs(p.x) < 0.58-t*0.44
	case p.y > neck && p.y < bottom:
		return math.Abs(p.x) < 0.14
	}
	return false
}

func white() color.NRGBA { return color.NRGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff} }

func tileBlue() color.NRGBA { return color.NRGBA{R: 0x1f, G: 0x6f, B: 0xd6, A: 0xff} }

// paint fills a square image; at gives the colour of a point, or false where
// the image is transparent.
func paint(size int, at func(point) (color.NRGBA, bool)) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	place := func(pixel, sample int) float64 {
		return (float64(pixel)+(float64(sample)+0.5)/samples)/float64(size)*2 - 1
	}
	for y := range size {
		for x := range size {
			var r, g, b, hits int
			for i := range samples * samples {
				c, ok := at(point{place(x, i%samples), place(y, i/samples)})
				if ok {
					r, g, b, hits = r+int(c.R), g+int(c.G), b+int(c.B), hits+1
				}
			}
			if hits > 0 {
				img.SetNRGBA(x, y, color.NRGBA{
					R: uint8(r / hits), G: uint8(g / hits), B: uint8(b / hits), //nolint:gosec // averages of bytes
					A: uint8(hits * 255 / (samples * samples)), //nolint:gosec // at most 255
				})
			}
		}
	}
	return img
}
