package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// await waits for the exit without reaping, so that the group can still be
// signalled safely. It ends with the process, which stop waits for.
func (p *process) await() {
	defer close(p.exited)
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.exit = exitOf(p.pid, err)
		return
	}
}

// exitOf reads how the zombie pid ended from its stat line: the Siginfo of
// x/sys keeps the fields of SIGCHLD to itself.
func exitOf(pid int, err error) exitStatus {
	if err != nil {
		return exitStatus{code: -1, cause: "lost sight of it: " + err.Error()}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return exitStatus{code: -1, cause: "ended"}
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	raw, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil {
		return exitStatus{code: -1, cause: "ended"}
	}
	return describeExit(syscall.WaitStatus(raw))
}

func describeExit(status syscall.WaitStatus) exitStatus {
	if status.Signaled() {
		return exitStatus{code: -1, cause: "signal: " + status.Signal().String()}
	}
	return exitStatus{code: status.ExitStatus(), cause: fmt.Sprintf("exit code %d", status.ExitStatus())}
}

// signalGroup sends SIGTERM, or SIGKILL, to the whole group, whose id is still ours
// since the leader is not reaped yet, and to descendants that left it.
func (p *process) signalGroup(kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	// They fail only when nobody is left, which is what we want.
	_ = unix.Kill(-int(p.group), signal)
	endTagged(child{Tag: p.tag}, kill)
}

// groupAlive reports whether a process of the group, or a descendant that left it,
// lives and is not a zombie.
func (p *process) groupAlive() bool {
	want := []byte(tagVariable + "=" + p.tag)
	alive := false
	leader, known := readStat(p.pid)
	eachProcess(func(pid int, stat processStat) {
		switch {
		case alive || stat.zombie:
		case stat.group == int(p.group):
			alive = true
		case !known || stat.start >= leader.start: // what it started is not older
			alive = hasVariable(pid, want)
		}
	})
	return alive
}

// reap takes the zombie away. The exit is known already.
func (p *process) reap() {
	// Wait reports the exit status as an error; we have it.
	_ = p.cmd.Wait()
}

// processStat is what we need of /proc/PID/stat.
type processStat struct {
	group  int
	zombie bool
	// start is when it started, in clock ticks since the boot.
	start uint64
}

// eachProcess calls visit for every process there is.
func eachProcess(visit func(pid int, stat processStat)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := readStat(pid); ok {
			visit(pid, stat)
		}
	}
}

func readStat(pid int) (processStat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, false
	}
	// The name in brackets may hold anything, so count from behind it: state, parent,
	// group, and start as the twentieth.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return processStat{}, false
	}
	group, err := strconv.Atoi(string(fields[2]))
	start, startErr := strconv.ParseUint(string(fields[19]), 10, 64)
	return processStat{
		group: group, zombie: fields[0][0] == 'Z' || fields[0][0] == 'X', start: start,
	}, err == nil && startErr == nil
}

// endTagged ends what is left of a process that an earlier life of this app
// started: every process with its tag in the environment, whatever group it went
// to, and the recorded leader if pid and start time are still the same.
func endTagged(c child, kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	for _, pid := range tagged(c) {
		_ = unix.Kill(pid, signal) // fails only when it has ended already
	}
}

// taggedAlive reports whether something of it is still there.
func taggedAlive(c child) bool { return len(tagged(c)) > 0 }

// tagged finds the living processes that carry the tag of c, or are its leader.
func tagged(c child) []int {
	want := []byte(tagVariable + "=" + c.Tag)
	var pids []int
	eachProcess(func(pid int, stat processStat) {
		if stat.zombie || pid == os.Getpid() {
			return
		}
		if pid == c.PID && c.leaderAlive() || hasVariable(pid, want) {
			pids = append(pids, pid)
		}
	})
	return pids
}

// hasVariable reports whether the environment of pid holds exactly want.
func hasVariable(pid int, want []byte) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false // another user's, or gone
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(variable, want) {
			return true
		}
	}
	return false
}
