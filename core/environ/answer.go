//go:build unix

package environ

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"unicode"
)

// maxAnswer bounds what is read from a shell, noise included.
const maxAnswer = 8 << 20

// What can go wrong with asking; none of it quotes the shell.
var (
	errNoAnswer  = errors.New("it ended without an answer")
	errNoTime    = errors.New("it did not answer in time")
	errBadAnswer = errors.New("its answer is not an environment")
)

// answer is what a shell said between the markers.
type answer struct {
	records []string
	err     error
}

// listen reads until the end marker. What comes before the begin marker is
// noise of start-up files.
func listen(r io.Reader, mark marker) answer {
	in := bufio.NewReader(io.LimitReader(r, maxAnswer))
	var a answer
	begun := false
	for {
		record, err := in.ReadString(0)
		if err != nil {
			return answer{err: errNoAnswer}
		}
		record = strings.TrimSuffix(record, "\x00")
		switch {
		case !begun:
			// The noise before has no NUL of its own: it sticks to the marker.
			begun = strings.HasSuffix(record, mark.begin())
		case strings.HasSuffix(record, mark.end()):
			return a
		default:
			a.records = append(a.records, record)
		}
	}
}

// clean makes an environment of the records: what is no variable is dropped (a
// background job can print into the answer), and so is what only tells of this
// shell. Without a PATH the answer is worthless.
func clean(records []string, base Env) ([]string, error) {
	var pairs []string
	for _, record := range records {
		key, _, ok := splitPair(record)
		if ok && plausibleKey(key) && !ofThisShell(key) {
			pairs = append(pairs, record)
		}
	}
	env := New(pairs)
	if path, ok := env.Lookup("PATH"); !ok || path == "" {
		return nil, errBadAnswer
	}
	for _, probe := range probeVariables() {
		key, _, _ := splitPair(probe)
		if value, ok := base.Lookup(key); ok {
			env = env.With([]string{key + "=" + value})
		}
	}
	return env.Environ(), nil
}

func plausibleKey(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// ofThisShell reports whether the variable tells of the shell that was asked,
// or was given to it by us.
func ofThisShell(key string) bool {
	switch key {
	case "_", "SHLVL", "PWD", "OLDPWD":
		return true
	}
	for _, probe := range probeVariables() {
		if strings.HasPrefix(probe, key+"=") {
			return true
		}
	}
	return false
}
