package assets

import (
	"image/color"
	"math"
)

// Shape is one of the pictures a state can have.
type Shape int

// The shapes, in the order in which a legend would show them.
const (
	// Ring is a hollow grey ring with a bar: switched off.
	Ring Shape = iota
	// Disc is a hollow grey disc: nothing runs because nobody asks for it.
	Disc
	// OpenRing is a blue ring with a gap: on its way.
	OpenRing
	// TickDisc is a green disc with a tick: works.
	TickDisc
	// Triangle is an amber triangle with an exclamation mark: in trouble, help is on its way.
	Triangle
	// Key is an amber key: waits for a log-in.
	Key
	// Octagon is a red octagon with a cross: does not work.
	Octagon
)

// Shapes returns every shape.
func Shapes() []Shape {
	return []Shape{Ring, Disc, OpenRing, TickDisc, Triangle, Key, Octagon}
}

// String names the shape in test failures and logs.
func (s Shape) String() string {
	switch s {
	case Ring:
		return "ring"
	case Disc:
		return "disc"
	case OpenRing:
		return "open ring"
	case TickDisc:
		return "disc with tick"
	case Triangle:
		return "triangle"
	case Key:
		return "key"
	case Octagon:
		return "octagon"
	}
	return "unknown shape"
}

// Colour is what the shape is filled with; signs on it are white.
func (s Shape) Colour() color.NRGBA {
	switch s {
	case Ring, Disc:
		return color.NRGBA{R: 0x80, G: 0x88, B: 0x90, A: 0xff}
	case OpenRing:
		return color.NRGBA{R: 0x3b, G: 0x82, B: 0xf6, A: 0xff}
	case TickDisc:
		return color.NRGBA{R: 0x2e, G: 0xa0, B: 0x43, A: 0xff}
	case Triangle, Key:
		return color.NRGBA{R: 0xb8, G: 0x79, B: 0x00, A: 0xff}
	case Octagon:
		return color.NRGBA{R: 0xe5, G: 0x48, B: 0x4d, A: 0xff}
	}
	return color.NRGBA{A: 0xff}
}

// point is a place on the canvas, which reaches from -1 to 1 both ways; y grows
// downwards.
type point struct{ x, y float64 }

// distance from p to the line between a and b.
func (p point) distance(a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	t := ((p.x-a.x)*dx + (p.y-a.y)*dy) / (dx*dx + dy*dy)
	t = max(0, min(1, t))
	return math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy)
}

// outer is the radius of the round shapes; the others are about as large.
const outer = 0.92

// covers tells whether the shape is there at p, and whether p belongs to the
// sign on it.
func (s Shape) covers(p point) (body, sign bool) {
	r := math.Hypot(p.x, p.y)
	switch s {
	case Ring:
		bar := p.distance(point{-0.38, 0}, point{0.38, 0}) < 0.13
		return r < outer && r > 0.66 || bar, false
	case Disc:
		return r < outer && r > 0.40, false
	case OpenRing:
		gap := p.x > 0 && p.y < 0
		return r < outer && r > 0.60 && !gap, false
	case TickDisc:
		corner := point{-0.12, 0.38}
		tick := min(p.distance(point{-0.45, 0.05}, corner), p.distance(corner, point{0.45, -0.32}))
		return r < outer, tick < 0.12
	case Triangle:
		inside := p.y < 0.82 && p.y > -0.9 && math.Abs(p.x) < 0.52*(p.y+0.95)+0.02
		stroke := p.distance(point{0, -0.3}, point{0, 0.25}) < 0.11
		dot := math.Hypot(p.x, p.y-0.56) < 0.13
		return inside, stroke || dot
	case Key:
		return coversKey(p), false
	case Octagon:
		inside := max(math.Abs(p.x), math.Abs(p.y)) < 0.9 && math.Abs(p.x)+math.Abs(p.y) < 1.27
		cross := min(p.distance(point{-0.35, -0.35}, point{0.35, 0.35}), p.distance(point{-0.35, 0.35}, point{0.35, -0.35}))
		return inside, cross < 0.13
	}
	return false, false
}

// coversKey draws the key along the diagonal, which is where it has most room.
func coversKey(p point) bool {
	// along runs from the bow to the tip, across to the side of the bit.
	along, across := (p.x+p.y)/math.Sqrt2, (p.y-p.x)/math.Sqrt2
	q := point{along, across}
	r := math.Hypot(along+0.60, across)
	bow := r < 0.50 && r > 0.20
	shaft := q.distance(point{-0.13, 0}, point{0.92, 0}) < 0.15
	bit := q.distance(point{0.54, 0}, point{0.54, -0.30}) < 0.13 || q.distance(point{0.88, 0}, point{0.88, -0.30}) < 0.13
	return bow || shaft || bit
}
