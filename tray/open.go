package tray

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// showLog opens the log of a server.
func (p *presenter) showLog(ctx context.Context, server string) error {
	if p.o.LogPath == nil {
		return errors.New("this app keeps no logs")
	}
	path := p.o.LogPath(server)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has not written anything yet: there is no %s", oneLine(server, labelLimit), path)
	}
	return p.o.Open(ctx, path)
}

// emptyConfig is a configuration to begin with.
const emptyConfig = "{\n  \"mcpServers\": {\n  }\n}\n"

// editConfig opens the configuration, and makes an empty one where there is none.
func (p *presenter) editConfig(ctx context.Context) error {
	path := p.o.ConfigPath
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the configuration: %w", err)
	}
	// It fails where there is anything under that name, be it a dead link.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(emptyConfig)
		if closed := file.Close(); err == nil {
			err = closed
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making an empty configuration: %w", err)
	}
	return p.o.Open(ctx, path)
}

// openerGrace is how long the desktop's opener is watched for a failure. Where it
// runs longer than that it is itself the program that shows the file.
const openerGrace = 10 * time.Second

// openFile opens a file with the program that the desktop has for it. It returns
// when that is on its way, or ctx ends. The program is the user's: it stays when
// the app goes, and until then is waited for, so that it leaves no zombie.
func openFile(ctx context.Context, path string) error {
	cmd := opener(path)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(openerGrace)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("opening %s: %w", path, openerError(err))
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// openerError puts the exit codes of xdg-open(1) into words.
func openerError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		return fmt.Errorf("the desktop has no program for it (%w); open it yourself", err)
	}
	return fmt.Errorf("the desktop could not (%w); open it yourself", err)
}
