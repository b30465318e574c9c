package process

// Alive reports whether the process that had this pid and this start time is
// still running. A zombie is not, and neither is another process that got the
// pid since. An empty start never matches.
func Alive(pid int, start string) bool {
	if start == "" {
		return false
	}
	now, err := StartTime(pid)
	return err == nil && now == start
}
