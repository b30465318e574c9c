package core

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
)

// instructions is the file that tells bridges what to say in the handshake when no app
// runs: the servers' instructions as they were last.
type instructions struct {
	path string
	log  *slog.Logger
	// text is what the file holds.
	text string
}

func instructionsPath(stateDir string) string { return filepath.Join(stateDir, "instructions.md") }

func openInstructions(stateDir string, log *slog.Logger) *instructions {
	return &instructions{path: instructionsPath(stateDir), log: log, text: ReadInstructions(stateDir)}
}

// keep writes text, if the file does not hold it.
func (i *instructions) keep(text string) {
	if text == i.text {
		return
	}
	if err := maybe.WriteFile(i.path, []byte(text), 0o600); err != nil {
		i.log.Warn("keeping the servers' instructions failed; clients that start before the app get old ones", "err", err)
		return
	}
	i.text = text
}

// maxInstructions bounds in bytes what is read of the file.
const maxInstructions = 256 << 10

// ReadInstructions returns the servers' instructions as the app last knew them, "" for
// none.
func ReadInstructions(stateDir string) string {
	f, err := os.Open(instructionsPath(stateDir))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxInstructions))
	if err != nil {
		return ""
	}
	return string(text)
}
