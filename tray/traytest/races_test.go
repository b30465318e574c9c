package traytest

import "testing"

const libraryRace = `tray icon shown
==================
WARNING: DATA RACE
Write at 0x000000c78d58 by goroutine 65:
  fyne.io/systray.refresh()
      /src/systray_menu_unix.go:423 +0x19e

Previous read at 0x000000c78d58 by goroutine 76:
  fyne.io/systray.(*tray).GetLayout()
      /src/systray_menu_unix.go:91 +0x1d6

Goroutine 65 (running) created at:
  mcp-funnel/tray.(*Tray).Run()
      /src/tray.go:78 +0x85
==================
`

const ourRace = `==================
WARNING: DATA RACE
Write at 0x00c0000a5110 by goroutine 19:
  fyne.io/systray.SetIcon()
      /src/systray_unix.go:62 +0x2f6
  mcp-funnel/tray.(*systrayView).setIcon()
      /src/view_systray.go:219 +0x1c4

Previous read at 0x00c0000a5110 by goroutine 70:
  reflect.Value.Int()
      /src/reflect/value.go:1461 +0x6dd

Goroutine 19 (running) created at:
  sync.(*WaitGroup).Go()
      /src/sync/waitgroup.go:238 +0x72
==================
`

func TestOurRaces(t *testing.T) {
	if got := OurRaces(libraryRace + "done\n"); got != nil {
		t.Errorf("a race of the library counts as ours: %q", got)
	}
	if got := OurRaces(libraryRace + ourRace); len(got) != 1 {
		t.Errorf("%d races of ours, want 1: %q", len(got), got)
	}
}
