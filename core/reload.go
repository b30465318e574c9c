package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// Reload reads the config file and puts it in force; only servers whose own entry
// changed are restarted. When the file cannot be read everything stays as it is,
// and the error says where the mistake is.
func (f *Funnel) Reload() (config.Changes, error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	next, err := f.load()
	if err != nil {
		f.refuse(err)
		return config.Changes{}, err
	}
	f.mu.Lock()
	old, broken := f.config, f.loadError
	f.config, f.loadError = next, nil
	f.mu.Unlock()

	changes := config.Diff(old, next)
	f.board.Update(func(s *status.Snapshot) {
		s.Config = status.Config{Path: f.options.ConfigPath, Warnings: texts(next.Warnings)}
	})
	f.supervisor.Apply(next.Servers, f.state.disabled)
	f.mergeLocked()
	if broken != nil || changes.Global || len(changes.Added)+len(changes.Removed)+len(changes.Changed) > 0 {
		f.log.Info("config loaded", "added", changes.Added, "removed", changes.Removed, "changed", changes.Changed)
		f.events.Publish(status.Event{
			Name: status.EventConfigReloaded, Added: changes.Added, Removed: changes.Removed, Changed: changes.Changed,
		})
	}
	for _, w := range next.Warnings {
		if !slices.Contains(old.Warnings, w) {
			f.log.Warn("config", "err", w.String())
		}
	}
	return changes, nil
}

// errGone: a config file that was in force is not there any more.
var errGone = errors.New("the config file is gone; what it said stays in force until there is one again")

// load reads the config with the variables known by now.
func (f *Funnel) load() (*config.Config, error) {
	env := f.environment.now()
	next, err := config.Load(f.options.ConfigPath, config.Options{
		Lookup: env.Lookup, Home: f.options.Home, BasePath: f.options.BasePath,
	})
	if err != nil {
		return nil, err
	}
	if len(next.Files) == 0 && len(f.Config().Files) > 0 {
		return nil, fmt.Errorf("reading %s: %w", f.options.ConfigPath, errGone)
	}
	return next, nil
}

// refuse keeps what is in force and tells, once for the same error.
func (f *Funnel) refuse(err error) {
	f.mu.Lock()
	known := f.loadError != nil && f.loadError.Error() == err.Error()
	f.loadError = err
	f.mu.Unlock()
	if known {
		return
	}
	f.log.Error("the config file cannot be used; what was in force stays", "err", err)
	f.events.Publish(status.Event{Name: status.EventConfigError, Message: err.Error()})
	f.board.Update(func(s *status.Snapshot) {
		s.Config.Path, s.Config.Error = f.options.ConfigPath, err.Error()
	})
}

func texts(issues []config.Issue) []string {
	var list []string
	for _, issue := range issues {
		list = append(list, issue.String())
	}
	return list
}

const (
	// configSettle is how long the config file has to be quiet before it is read, and
	// configAtMost how long that is waited for.
	configSettle = 150 * time.Millisecond
	configAtMost = time.Second
)

// secondLook is how long after a file proved unreadable it is read again before
// anybody is told: an editor may be in the middle of writing it.
const secondLook = 400 * time.Millisecond

// watchConfig reloads after every edit of the file.
func (f *Funnel) watchConfig(ctx context.Context) error {
	return f.watchError(ctx, f.watcher.Run(ctx, func() {
		if _, err := f.load(); err != nil {
			select {
			case <-time.After(secondLook):
			case <-ctx.Done():
				return
			}
		}
		// The error is on the board.
		_, _ = f.Reload()
	}))
}

// watchError keeps the funnel going when the file cannot be watched.
func (f *Funnel) watchError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		f.log.Error("watching the config file failed; use `mcp-funnel reload` after an edit", "err", err)
	}
	return nil
}
