//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// The results of a check. Others than failure say that it was not made, or more.
const (
	checkPassed  = "SUCCESS"
	checkFailed  = "FAILURE"
	checkNotMade = "not made"
)

// check is one finding of a scenario.
type check struct {
	ID           string
	Status       string
	ErrorMessage string
}

// scenario has its checks in the order in which they were made; some are made often.
type scenario []check

// findings are those of one run of a suite, by scenario.
type findings map[string]scenario

// departures are checks that the funnel does not pass as the server does, on purpose.
// They must not fail either.
var departures = map[string]string{
	"json-schema-2020-12/sep-2106-composition-keywords-preserved": "allOf is taken from the root of a tool's schema: APIs of models refuse the whole list for it",
	"server-sse-multiple-streams/server-sse-streams-functional":   "an answer that nothing comes before is plain JSON, no stream",
	"server-sse-polling/server-sse-retry-field":                   "as before: there is no stream that could be closed early",
}

// resultFolder is where a suite writes a scenario's checks: its name and the time, and
// before them what was tested where that is a server.
var resultFolder = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d\d-\d\dT[^/]*$`)

// readFindings reads what a suite wrote into dir.
func readFindings(dir string) (findings, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	found := findings{}
	for _, file := range files {
		name := resultFolder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			return nil, fmt.Errorf("%s is the folder of no scenario", filepath.Dir(file))
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var checks scenario
		if err := json.Unmarshal(content, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found[name[1]] = checks
	}
	return found, nil
}

func (s scenario) count(status string) int {
	n := 0
	for _, c := range s {
		if c.Status == status {
			n++
		}
	}
	return n
}

func (s scenario) passed() int { return s.count(checkPassed) }
func (s scenario) failed() int { return s.count(checkFailed) }
func (s scenario) ok() bool    { return s.passed() > 0 && s.failed() == 0 }

// result is the worst one of a check that may have been made more than once.
func (s scenario) result(id string) (status, message string) {
	status = checkNotMade
	for _, c := range s {
		if c.ID == id && (status == checkNotMade || status == checkPassed || c.Status == checkFailed) {
			status, message = c.Status, c.ErrorMessage
		}
	}
	return status, message
}

// failures are all checks that failed.
func (f findings) failures() []string {
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for _, c := range f[name] {
			if c.Status == checkFailed {
				failed = append(failed, fmt.Sprintf("%s/%s: %s", name, c.ID, c.ErrorMessage))
			}
		}
	}
	return failed
}

// lost is what passed natively and did not here.
func (f findings) lost(native findings) []string {
	lost := f.failures()
	for _, name := range slices.Sorted(maps.Keys(native)) {
		if f[name] == nil {
			lost = append(lost, name+": it did not run")
		}
		for _, c := range native[name] {
			status, message := f[name].result(c.ID)
			_, meant := departures[name+"/"+c.ID]
			if c.Status == checkPassed && status != checkPassed && status != checkFailed && !meant {
				lost = append(lost, fmt.Sprintf("%s/%s: %s %s", name, c.ID, status, message))
			}
		}
	}
	return lost
}

// table shows every scenario by every way: how many checks passed, and how many failed.
func table(title string, found map[string]findings) string {
	names := map[string]bool{}
	for _, f := range found {
		for name := range f {
			names[name] = true
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "%s\t%s\n", title, strings.Join(ways, "\t"))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cells := []string{name}
		for _, way := range ways {
			cells = append(cells, cell(found[way][name]))
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	return b.String()
}

func cell(s scenario) string {
	switch {
	case s == nil:
		return "-"
	case s.failed() > 0:
		return fmt.Sprintf("FAIL %d of %d", s.failed(), s.failed()+s.passed())
	case s.passed() == 0:
		return "nothing to check"
	}
	return fmt.Sprintf("ok %d", s.passed())
}

// departuresText explains why some numbers through the funnel are smaller.
func departuresText() string {
	text := "\nfewer checks than natively, on purpose:"
	for _, id := range slices.Sorted(maps.Keys(departures)) {
		text += fmt.Sprintf("\n  %s\n    %s", id, departures[id])
	}
	return text
}
