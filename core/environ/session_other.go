//go:build unix && !linux

package environ

// endMembers: outside Linux only the leader's own group is ended. A shell
// without a terminal has no job control, so that its jobs are in that group.
func endMembers(int) {}
