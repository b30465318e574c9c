package environ

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// endMembers kills the processes of a session that are in other groups than
// its leader: jobs of a shell with job control.
func endMembers(session int) {
	// One that forks while it is looked for is found in the next round.
	const rounds = 5
	for range rounds {
		found := false
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil || pid == session || !livesInSession(pid, session) {
				continue
			}
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already if it fails
		}
		if !found {
			return
		}
	}
}

// livesInSession reads proc_pid_stat(5): after the name in brackets come state,
// ppid, pgrp and session.
func livesInSession(pid, session int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 3 && string(fields[0]) != "Z" && string(fields[3]) == strconv.Itoa(session)
}
