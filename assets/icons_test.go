package assets

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func decode(t *testing.T, data []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return img
}

func TestPNGHasTheSizeAskedFor(t *testing.T) {
	var icons Icons
	for _, s := range Shapes() {
		for _, size := range []int{1, 16, 48} {
			for name, data := range map[string][]byte{
				"plain": icons.PNG(s, size), "menu": icons.MenuPNG(s, size), "template": icons.TemplatePNG(s, size),
			} {
				if got := decode(t, data).Bounds(); got != image.Rect(0, 0, size, size) {
					t.Errorf("%s %s %d: bounds %v", s, name, size, got)
				}
			}
		}
	}
}

// outline is where a drawing is there at all: what is left without colour.
func outline(img *image.NRGBA) []bool {
	out := make([]bool, 0, len(img.Pix)/4)
	for i := 0; i < len(img.Pix); i += 4 {
		out = append(out, img.Pix[i+3] > 127)
	}
	return out
}

func TestShapesDifferWithoutColour(t *testing.T) {
	const size = 16
	for i, a := range Shapes() {
		for _, b := range Shapes()[i+1:] {
			outlineA, outlineB := outline(drawShape(a, size, template)), outline(drawShape(b, size, template))
			differ := 0
			for i := range outlineA {
				if outlineA[i] != outlineB[i] {
					differ++
				}
			}
			if differ < 20 {
				t.Errorf("%s and %s differ in %d of %d pixels only", a, b, differ, size*size)
			}
		}
	}
}

// luminance follows WCAG 2, "relative luminance".
func luminance(c color.NRGBA) float64 {
	linear := func(v uint8) float64 {
		f := float64(v) / 255
		if f <= 0.04045 {
			return f / 12.92
		}
		return math.Pow((f+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

func contrast(a, b color.NRGBA) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func TestColoursStandOutOnLightAndDarkPanels(t *testing.T) {
	panels := map[string]color.NRGBA{
		"light": {0xf6, 0xf5, 0xf4, 0xff},
		"dark":  {0x2d, 0x2d, 0x2d, 0xff},
	}
	for _, s := range Shapes() {
		for name, panel := range panels {
			if c := contrast(s.Colour(), panel); c < 3 {
				t.Errorf("%s on a %s panel: contrast %.2f, want at least 3", s, name, c)
			}
		}
	}
}

// Without colour, at the size at which panels show them, no two shapes look alike: on
// either panel they differ clearly in brightness somewhere.
func TestShapesDifferInGrey(t *testing.T) {
	grey := func(s Shape, size int, panel float64) []float64 {
		img := Image(s, size)
		out := make([]float64, 0, size*size)
		for i := 0; i < len(img.Pix); i += 4 {
			c := color.NRGBA{R: img.Pix[i], G: img.Pix[i+1], B: img.Pix[i+2], A: 0xff}
			alpha := float64(img.Pix[i+3]) / 255
			out = append(out, alpha*luminance(c)+(1-alpha)*panel)
		}
		return out
	}
	light, dark := luminance(color.NRGBA{0xf6, 0xf5, 0xf4, 0xff}), luminance(color.NRGBA{0x2d, 0x2d, 0x2d, 0xff})
	for _, size := range []int{16, 22, 24, 48} {
		for name, panel := range map[string]float64{"light": light, "dark": dark} {
			for i, a := range Shapes() {
				for _, b := range Shapes()[i+1:] {
					greyA, greyB := grey(a, size, panel), grey(b, size, panel)
					differ := 0
					for i := range greyA {
						if math.Abs(greyA[i]-greyB[i]) > 0.1 {
							differ++
						}
					}
					if share := float64(differ) / float64(size*size); share < 0.05 {
						t.Errorf("%s and %s at %d pixels on a %s panel differ in %.0f %% of the pixels only", a, b, size, name, 100*share)
					}
				}
			}
		}
	}
}

func TestRimSurroundsTheShape(t *testing.T) {
	img := drawShape(TickDisc, 32, rimmed)
	if got := img.NRGBAAt(16, 1); got.R < 0xf0 || got.A < 0x80 {
		t.Errorf("top edge is %v, want the white rim", got)
	}
	if got := img.NRGBAAt(16, 5); got != TickDisc.Colour() {
		t.Errorf("below the rim: %v, want %v", got, TickDisc.Colour())
	}
}

func TestTemplateIsBlack(t *testing.T) {
	img := drawShape(Octagon, 32, template)
	for i := 0; i < len(img.Pix); i += 4 {
		if img.Pix[i]|img.Pix[i+1]|img.Pix[i+2] != 0 {
			t.Fatalf("byte %d: a colour in a template", i)
		}
	}
	if a := img.NRGBAAt(16, 16).A; a != 0 {
		t.Errorf("the cross is not cut out: alpha %d", a)
	}
}

func TestICODirectoryPointsAtPNGs(t *testing.T) {
	var icons Icons
	for name, data := range map[string][]byte{"shape": icons.ICO(Key), "menu": icons.MenuICO(Key), "app": AppICO()} {
		little := binary.LittleEndian
		if little.Uint16(data) != 0 || little.Uint16(data[2:]) != 1 {
			t.Fatalf("%s: bad header % x", name, data[:6])
		}
		for i := range int(little.Uint16(data[4:])) {
			entry := data[6+16*i:]
			size := int(entry[0])
			if size == 0 {
				size = 256
			}
			length, offset := little.Uint32(entry[8:]), little.Uint32(entry[12:])
			img := decode(t, data[offset:offset+length])
			if img.Bounds().Dx() != size {
				t.Errorf("%s entry %d: %d pixels wide, directory says %d", name, i, img.Bounds().Dx(), size)
			}
		}
	}
}

func TestIconsAreDrawnOnce(t *testing.T) {
	var icons Icons
	first := icons.PNG(Octagon, 24)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if again := icons.PNG(Octagon, 24); &again[0] != &first[0] {
				t.Error("drawn a second time")
			}
		})
	}
	wg.Wait()
}

func TestAppIcon(t *testing.T) {
	img := decode(t, AppIcon(64))
	opaque := color.NRGBAModel.Convert(img.At(32, 26)).(color.NRGBA)
	if opaque != white() {
		t.Errorf("the funnel's mouth is %v, want white", opaque)
	}
	if _, _, _, a := img.At(0, 0).RGBA(); a != 0 {
		t.Error("the tile's corner is not round")
	}
}

func TestEveryShapeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Shapes() {
		if name := s.String(); name == "unknown shape" || seen[name] {
			t.Errorf("shape %d is called %q", int(s), name)
		} else {
			seen[name] = true
		}
	}
}
