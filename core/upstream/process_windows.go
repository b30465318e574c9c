package upstream

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is the job object that a process and its descendants belong to. Its handle is
// the only one: when this app ends in whatever way, Windows ends the members.
type group struct{ job windows.Handle }

// launch starts cmd without a console window and puts it into a job of its own. What
// it starts before it is in the job, which takes a moment, would escape it.
func launch(cmd *exec.Cmd) (_ *process, err error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("making a job object: %w", err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job) // nothing is in it
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, exited: make(chan struct{}), group: group{job: job}}
	// It fails when the process has ended already; then there is nobody to end.
	_ = cmd.Process.WithHandle(func(handle uintptr) {
		_ = windows.AssignProcessToJobObject(job, windows.Handle(handle))
	})
	go p.await()
	return p, nil
}

// newJob makes a job whose members end when its handle is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job) // nothing is in it
		return 0, err
	}
	return job, nil
}

func (p *process) await() {
	defer close(p.exited)
	// Wait reports the exit status as an error; ProcessState has it as well.
	_ = p.cmd.Wait()
	code := p.cmd.ProcessState.ExitCode()
	p.exit = exitStatus{code: code, cause: fmt.Sprintf("exit code %d", code)}
}

// signalGroup ends everything in the job. Windows has no SIGTERM: the closed input
// was the polite request.
func (p *process) signalGroup(bool) {
	_ = p.cmd.Process.Kill()                       // fails only when it has ended already
	_ = windows.TerminateJobObject(p.group.job, 1) // the handle is ours and open
}

// jobAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION of winnt.h.
type jobAccounting struct {
	totalUserTime, totalKernelTime, periodUserTime, periodKernelTime int64
	pageFaults, totalProcesses, activeProcesses, terminated          uint32
}

// groupAlive reports whether something in the job lives.
func (p *process) groupAlive() bool {
	var accounting jobAccounting
	err := windows.QueryInformationJobObject(p.group.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&accounting)), uint32(unsafe.Sizeof(accounting)), nil)
	return err == nil && accounting.activeProcesses > 0
}

// reap gives the job up.
func (p *process) reap() {
	_ = windows.CloseHandle(p.group.job) // nobody is in it any more
}

// endTagged ends the leader that an earlier life recorded, proven by its start
// time.
func endTagged(c child, _ bool) {
	if !c.leaderAlive() {
		return
	}
	if leader, err := os.FindProcess(c.PID); err == nil {
		_ = leader.Kill() // fails only when it has ended already
	}
}

func taggedAlive(c child) bool { return c.leaderAlive() }
