package assets

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"sync"
)

// Icons draws encoded icons and keeps them: a tray asks for the same few again
// and again, and one takes some milliseconds. Its zero value is ready for use.
type Icons struct {
	mu sync.Mutex
	// drawn holds what was asked for before; a handful of shapes and sizes.
	drawn map[icon][]byte
}

// icon names one encoded picture.
type icon struct {
	shape  Shape
	size   int // 0: an ICO with all sizes
	finish finish
}

// PNG returns shape s as a PNG for a panel or a notification; size is in pixels
// and at least 1.
func (i *Icons) PNG(s Shape, size int) []byte { return i.get(icon{s, size, plain}) }

// MenuPNG is PNG with a thin white rim, which keeps the icon visible on the
// coloured bar of a selected menu row.
func (i *Icons) MenuPNG(s Shape, size int) []byte { return i.get(icon{s, size, rimmed}) }

// TemplatePNG returns shape s in black on transparent, as a macOS menu bar wants it.
func (i *Icons) TemplatePNG(s Shape, size int) []byte { return i.get(icon{s, size, template}) }

// ICO returns shape s as a Windows icon in all the sizes Windows picks from.
func (i *Icons) ICO(s Shape) []byte { return i.get(icon{s, 0, plain}) }

// MenuICO is ICO with the rim of MenuPNG.
func (i *Icons) MenuICO(s Shape) []byte { return i.get(icon{s, 0, rimmed}) }

func (i *Icons) get(want icon) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if data, ok := i.drawn[want]; ok {
		return data
	}
	if i.drawn == nil {
		i.drawn = make(map[icon][]byte)
	}
	data := want.encode()
	i.drawn[want] = data
	return data
}

func (i icon) encode() []byte {
	if i.size > 0 {
		return encodePNG(drawShape(i.shape, i.size, i.finish))
	}
	return encodeICO([]int{16, 20, 24, 32, 48, 64}, func(size int) *image.NRGBA {
		return drawShape(i.shape, size, i.finish)
	})
}

// AppIcon returns the app's icon as a PNG; size is in pixels and at least 1.
func AppIcon(size int) []byte { return encodePNG(AppImage(size)) }

// AppICO returns the app's icon as a Windows icon, for the executable.
func AppICO() []byte { return encodeICO([]int{16, 20, 24, 32, 48, 64, 256}, AppImage) }

func encodePNG(img image.Image) []byte {
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		// Memory does not fail; an image without pixels is the caller's mistake.
		panic("assets: encoding a PNG: " + err.Error())
	}
	return out.Bytes()
}

// encodeICO packs PNG images into a Windows icon: a header, one directory entry
// for each size, then the images (Windows Vista and later take PNG in them).
func encodeICO(sizes []int, at func(size int) *image.NRGBA) []byte {
	const headerLen, entryLen = 6, 16
	little := binary.LittleEndian
	var head, body []byte
	head = little.AppendUint16(head, 0) // reserved
	head = little.AppendUint16(head, 1) // an icon, not a cursor
	head = little.AppendUint16(head, uint16(len(sizes)))
	for _, size := range sizes {
		data := encodePNG(at(size))
		head = append(head, byte(size), byte(size), 0, 0) // 256 is written as 0
		head = little.AppendUint16(head, 1)               // colour planes
		head = little.AppendUint16(head, 32)              // bits per pixel
		head = little.AppendUint32(head, uint32(len(data)))
		head = little.AppendUint32(head, uint32(headerLen+entryLen*len(sizes)+len(body)))
		body = append(body, data...)
	}
	return append(head, body...)
}
