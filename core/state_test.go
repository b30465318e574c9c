package core

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNotificationsTickIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state.json")
	if !openState(path).notifications() {
		t.Error("off without a word of the user")
	}
	s := openState(path)
	if err := s.setDisabled("a", true); err != nil {
		t.Fatal(err)
	}
	if err := s.setNotifications(false); err != nil {
		t.Fatal(err)
	}
	if again := openState(path); again.notifications() || !again.disabled("a") {
		t.Errorf("not kept: notifications %v, a disabled %v", again.notifications(), again.disabled("a"))
	}
	if err := s.setNotifications(true); err != nil {
		t.Fatal(err)
	}
	if again := openState(path); !again.notifications() || !again.disabled("a") {
		t.Errorf("not kept: notifications %v, a disabled %v", again.notifications(), again.disabled("a"))
	}
}

func TestStateThatCannotBeUsedIsNotWritten(t *testing.T) {
	for text, usable := range map[string]bool{`{"notifications": "no"}`: false, `[`: false, `null`: true, `{"other": 1}`: true} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := openState(path)
		err := s.setNotifications(false)
		if (err == nil) != usable || s.notifications() == usable {
			t.Errorf("%s: %v, notifications %v", text, err, s.notifications())
		}
		content, readErr := os.ReadFile(path)
		if readErr != nil || !usable && string(content) != text || strings.Contains(text, "other") && !strings.Contains(string(content), "other") {
			t.Errorf("%s became %s, %v", text, content, readErr)
		}
	}
}
