package tray

import (
	"bytes"
	"image"
	"testing"

	"mcp-funnel/assets"
)

func TestStraightIconHasStraightColoursInTheLowByte(t *testing.T) {
	registerStraight()
	var icons assets.Icons
	img, format, err := image.Decode(bytes.NewReader(straightIcon(icons.PNG(assets.Octagon, 24))))
	if err != nil || format != "mcp-funnel-straight" {
		t.Fatalf("format %q, %v", format, err)
	}
	want, edge := assets.Image(assets.Octagon, 24), 0
	for y := range 24 {
		for x := range 24 {
			w := want.NRGBAAt(x, y)
			if w.A == 0 {
				continue
			}
			if w.A < 0xff {
				edge++
			}
			r, g, b, a := img.At(x, y).RGBA()
			if byte(r) != w.R || byte(g) != w.G || byte(b) != w.B || byte(a) != w.A {
				t.Errorf("pixel %d,%d: low bytes %02x %02x %02x %02x, want %v", x, y, byte(r), byte(g), byte(b), byte(a), w)
			}
		}
	}
	if edge == 0 {
		t.Error("no half-transparent pixel was checked")
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(straightIcon(icons.PNG(assets.Octagon, 24))))
	if err != nil || config.Width != 24 || config.Height != 24 {
		t.Errorf("config %+v, %v", config, err)
	}
}

func TestStraightIconRefusesOtherData(t *testing.T) {
	for _, data := range [][]byte{nil, []byte("PNG"), straightIcon(nil), straightIcon([]byte("no PNG"))} {
		if _, err := decodeStraight(bytes.NewReader(data)); err == nil {
			t.Errorf("%q was decoded", data)
		}
	}
}
