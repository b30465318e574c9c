package tray

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
)

// The tray library's code for Linux reads the low byte of the 16-bit colours
// that color.Color.RGBA returns, which are multiplied with the opacity. For
// every pixel that is neither opaque nor transparent that byte is noise, and
// the panel draws coloured fringes. The library decodes icons by package image,
// so it can be handed a format of our own that decodes to an image whose RGBA
// returns what it should have read: colours that are not multiplied, with equal
// high and low bytes.

// straightMagic begins an icon in that format; a PNG follows.
const straightMagic = "mcp-funnel straight alpha\x00"

// registerStraight makes package image know the format. Registering it twice
// does no harm.
func registerStraight() {
	image.RegisterFormat("mcp-funnel-straight", straightMagic, decodeStraight, decodeStraightConfig)
}

// straightIcon wraps a PNG in the format.
func straightIcon(data []byte) []byte { return append([]byte(straightMagic), data...) }

type straightColor color.NRGBA

// RGBA implements [color.Color], against its contract: see above.
func (c straightColor) RGBA() (r, g, b, a uint32) {
	const bothBytes = 0x101
	return uint32(c.R) * bothBytes, uint32(c.G) * bothBytes, uint32(c.B) * bothBytes, uint32(c.A) * bothBytes
}

type straightImage struct{ *image.NRGBA }

func (s straightImage) At(x, y int) color.Color { return straightColor(s.NRGBAAt(x, y)) }

func decodeStraight(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading an icon: %w", err)
	}
	data, ok := bytes.CutPrefix(data, []byte(straightMagic))
	if !ok {
		return nil, errors.New("reading an icon: not in the format for tray icons")
	}
	src, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading an icon: %w", err)
	}
	img := image.NewNRGBA(image.Rect(0, 0, src.Bounds().Dx(), src.Bounds().Dy()))
	draw.Draw(img, img.Bounds(), src, src.Bounds().Min, draw.Src)
	return straightImage{img}, nil
}

func decodeStraightConfig(r io.Reader) (image.Config, error) {
	img, err := decodeStraight(r)
	if err != nil {
		return image.Config{}, err
	}
	return image.Config{ColorModel: color.NRGBAModel, Width: img.Bounds().Dx(), Height: img.Bounds().Dy()}, nil
}
