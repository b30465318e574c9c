//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fault is one way in which something breaks.
type fault struct {
	// name is group/what, for -only too.
	name string
	// did says what was done, for the table.
	did string
	// long: not for -short.
	long bool
	// alone: nothing else runs meanwhile.
	alone bool
	// play breaks it and measures. What fails with an error could not be tried to its
	// end; what came out otherwise than it should is noted in the trial.
	play func(context.Context, *trial) error
}

// patience is how long anything may take that has no limit of its own.
const patience = 30 * time.Second

// trial is a fault that is being tried.
type trial struct {
	*sandbox
	fault

	// slack multiplies limits of time.
	slack float64
	short bool

	// noticed and usable are measured from the moment of the break.
	noticed, usable samples
	// noticedAs and usableAs are shown instead, where there are words.
	noticedAs, usableAs string
	figures             []figure
	problems, remarks   []string
}

// skipError says why a fault was not tried.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// skip gives up a trial that is not possible here.
func skip(format string, args ...any) error { return &skipError{fmt.Sprintf(format, args...)} }

// check notes a problem unless ok.
func (t *trial) check(ok bool, format string, args ...any) {
	if !ok {
		t.problems = append(t.problems, fmt.Sprintf(format, args...))
	}
}

// within checks a time that was measured.
func (t *trial) within(what string, took, limit time.Duration) {
	limit = time.Duration(float64(limit) * t.slack)
	t.check(took <= limit, "%s took %s, at most %s is right", what, short(took), short(limit))
}

// contains checks a text for each of the words.
func (t *trial) contains(what, text string, words ...string) {
	for _, word := range words {
		t.check(strings.Contains(text, word), "%s is %q, without %q", what, text, word)
	}
}

// refused checks that err is an error answer with each of the words.
func (t *trial) refused(what string, err error, words ...string) {
	answer, ok := errors.AsType[*answerError](err)
	if !ok {
		t.check(false, "%s: want an error as its answer, got %v", what, err)
		return
	}
	t.contains("the answer to "+what, answer.text, words...)
}

// remark adds what readers of the table should know.
func (t *trial) remark(format string, args ...any) {
	t.remarks = append(t.remarks, fmt.Sprintf(format, args...))
}

// figure adds a number beside its goal, which counts as a problem when it is missed.
func (t *trial) figure(what, measured, goal string, met bool) {
	t.figures = append(t.figures, figure{what, measured, goal, met})
	t.check(met, "%s: %s, the goal is %s", what, measured, goal)
}

// rounds is how often something is measured.
func (t *trial) rounds() int {
	if t.short {
		return 2
	}
	return 10
}

// startConnected starts an app over these servers and waits for all of them.
func (t *trial) startConnected(ctx context.Context, all servers) error {
	if err := t.start(ctx, all); err != nil {
		return err
	}
	for name := range all {
		if _, err := t.in(ctx, name, "connected"); err != nil {
			return err
		}
	}
	return nil
}

// mostTime is how long one trial may take.
const mostTime = 5 * time.Minute

// run plays the fault in a sandbox of its own. Afterwards nothing may be left of it:
// neither beside the running app nor once that has quit.
func (f fault) run(ctx context.Context, l *lab) (row, []figure) {
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime, errors.New("the trial takes too long"))
	defer cancel()
	t := &trial{fault: f, slack: l.slack, short: l.short}
	var err error
	left := 0
	if t.sandbox, err = newSandbox(l.program, l.self); err == nil {
		err = f.play(ctx, t)
		left = t.leftovers(ctx)
		err = errors.Join(err, t.remove())
	}
	return t.row(err, left), t.figures
}

// leftovers counts what should not be there any more, before and after the app quits.
func (t *trial) leftovers(ctx context.Context) int {
	count := 0
	if t.app != nil {
		for _, p := range t.strays(ctx) {
			count++
			t.check(false, "left over beside the app: %s", p)
		}
	}
	_, left := t.quit(ctx)
	for _, p := range left {
		t.check(false, "left over after quit: %s", p)
	}
	return count + len(left)
}

func (t *trial) row(err error, left int) row {
	r := row{
		fault: t.name, did: t.did, left: strconv.Itoa(left),
		noticed: t.noticed.String(), usable: t.usable.String(), remarks: t.remarks,
	}
	if t.noticedAs != "" {
		r.noticed = t.noticedAs
	}
	if t.usableAs != "" {
		r.usable = t.usableAs
	}
	reason, skip := errors.AsType[*skipError](err)
	switch {
	case skip:
		r.verdict, r.why = skipped, []string{reason.reason}
	case err != nil:
		r.verdict, r.why = failed, append(t.problems, err.Error())
	case len(t.problems) > 0:
		r.verdict, r.why = failed, t.problems
	}
	return r
}
