//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// verdict is what came of a trial.
type verdict uint8

const (
	passed verdict = iota
	skipped
	failed
)

func (v verdict) String() string { return [...]string{"ok", "skipped", "FAILED"}[v] }

// row is what the table says of one fault.
type row struct {
	fault, did      string
	noticed, usable string
	left            string
	verdict         verdict
	// why has the reasons of a verdict other than ok, and remarks what readers should
	// know besides.
	why, remarks []string
}

// notes are all that stands below the table.
func (r row) notes() []string {
	var notes []string
	for _, why := range r.why {
		notes = append(notes, fmt.Sprintf("%s, %s: %s", r.fault, r.verdict, why))
	}
	for _, remark := range r.remarks {
		notes = append(notes, r.fault+": "+remark)
	}
	return notes
}

func (r row) cells() []string {
	return []string{r.fault, r.did, r.noticed, r.usable, r.left, r.verdict.String()}
}

// figure is a number beside its goal.
type figure struct {
	what, measured, goal string
	met                  bool
}

func (f figure) cells() []string {
	v := passed
	if !f.met {
		v = failed
	}
	return []string{f.what, f.measured, f.goal, v.String()}
}

// report is everything that is printed.
type report struct {
	rows    []row
	figures []figure
}

// The headings of the two tables.
const (
	rowHeading    = "fault|what was done|noticed after|usable again after|left over|"
	figureHeading = "number|measured|goal|"
)

func (r *report) tables() (rows, figures [][]string) {
	rows, figures = [][]string{strings.Split(rowHeading, "|")}, [][]string{strings.Split(figureHeading, "|")}
	for _, one := range r.rows {
		rows = append(rows, one.cells())
	}
	for _, one := range r.figures {
		figures = append(figures, one.cells())
	}
	return rows, figures
}

// failures counts what did not go as expected.
func (r *report) failures() int {
	count := 0
	for _, one := range r.rows {
		if one.verdict == failed {
			count++
		}
	}
	return count
}

// print writes the tables for a terminal.
func (r *report) print(out io.Writer) error {
	rows, figures := r.tables()
	for _, table := range [][][]string{rows, figures} {
		if len(table) == 1 {
			continue
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, cells := range table {
			_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // Flush tells
		}
		_, _ = fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return fmt.Errorf("printing the table: %w", err)
		}
	}
	for _, one := range r.rows {
		for _, note := range one.notes() {
			if _, err := fmt.Fprintln(out, note); err != nil {
				return fmt.Errorf("printing the table: %w", err)
			}
		}
	}
	return nil
}

// markdown is the same as a document; about says how it came about.
func (r *report) markdown(about string) string {
	var b strings.Builder
	b.WriteString("# What happens when something breaks\n\n" + about + "\n")
	rows, figures := r.tables()
	for _, table := range [][][]string{rows, figures} {
		if len(table) == 1 {
			continue
		}
		b.WriteByte('\n')
		for i, cells := range table {
			for _, cell := range cells {
				b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
			}
			b.WriteString("|\n")
			if i == 0 {
				b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
			}
		}
	}
	separator := "\n"
	for _, one := range r.rows {
		for _, note := range one.notes() {
			fmt.Fprintf(&b, "%s- %s\n", separator, oneLine(note))
			separator = ""
		}
	}
	return b.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
