//go:build linux

package tray

import (
	"context"
	"io"
	"log"
	"os"
	"testing"

	"mcp-funnel/assets"
	"mcp-funnel/tray/traytest"
)

// The library panics when it sets the icon on a connection that was closed. This
// is the one test that runs the library in the test's own process.
func TestC112_PictureAfterTheBusIsGone(t *testing.T) {
	log.SetOutput(io.Discard) // the library tells of every single failure
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	bus := traytest.StartBus(t)
	t.Setenv(addressVar, bus.Address)
	session, err := openSession(t.Context(), traytest.Environ(addressVar+"="+bus.Address))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	view, ended := newView("1"), make(chan struct{})
	go func() {
		defer close(ended)
		view.run(ctx, model{icon: assets.TickDisc}, view.join)
	}()
	<-view.ready
	session.close()
	for _, shape := range assets.Shapes() {
		view.show(model{icon: shape, summary: shape.String(), rows: []row{{label: shape.String()}}})
	}
	cancel()
	<-ended
}
