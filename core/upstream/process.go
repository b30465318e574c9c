package upstream

import (
	"os"
	"os/exec"
	"regexp"
	"time"
)

// ansi matches the escape sequences of terminals (ECMA-48, CSI and OSC).
var ansi = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])`)

// process is a child of ours that leads a process group of its own.
type process struct {
	cmd *exec.Cmd
	pid int
	// group is what the system needs to end its descendants with it.
	group group
	// exited is closed when the process has ended; exit is valid then. Where the
	// system allows it, the process is not yet reaped at that moment, so that its
	// pid, which is the id of the group too, cannot belong to anybody else.
	exited chan struct{}
	exit   exitStatus
	// tag is in the environment of the process and its descendants.
	tag string
	// reaped is called once, after nothing of the group is left.
	reaped func()
}

// exitStatus says how a process ended.
type exitStatus struct {
	// code is the exit code, -1 after a signal.
	code int
	// cause is for people: "exit code 3", "signal: killed".
	cause string
}

// stop ends the process and its group and returns when they are gone: its input
// is closed, then SIGTERM, then SIGKILL. After an exit that nobody asked for only
// what is left of the group is ended.
func (p *process) stop(stdin *os.File) {
	closeAll(stdin)
	p.within(eofGrace)
	if !p.alone() {
		p.signalGroup(false)
		if !p.aloneWithin(termGrace) {
			p.signalGroup(true)
			p.aloneWithin(killGrace)
		}
	}
	<-p.exited
	p.reap()
	p.reaped()
}

// killGrace is how long the end of a killed group is waited for. Only a process that
// the system itself cannot end takes longer.
const killGrace = 2 * time.Second

// aloneWithin waits until nothing of the group is left, at most for d, and reports
// whether that came. Nobody tells when the last of a group ends, so it looks.
func (p *process) aloneWithin(d time.Duration) bool {
	deadline := time.Now().Add(d)
	p.within(d)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if p.alone() {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
		<-time.After(pause)
	}
}

// within waits for the exit, at most for d.
func (p *process) within(d time.Duration) {
	select {
	case <-p.exited:
	case <-time.After(d):
	}
}

// alone reports whether the process has ended and nobody of its group is left.
func (p *process) alone() bool {
	select {
	case <-p.exited:
		return !p.groupAlive()
	default:
		return false
	}
}
