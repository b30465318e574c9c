package wakeup

import "time"

const (
	// shortestSleep is by how much the time of day must get ahead to count as a
	// sleep. Corrections of a clock that goes wrong are far smaller.
	shortestSleep = 10 * time.Second
	// oneResume is how far apart two words of one and the same resume may be.
	oneResume = 20 * time.Second
)

// clock is the two clocks that part when the machine sleeps.
type clock struct {
	// wall is the time of day, which somebody may set; without a monotonic
	// reading, which [time.Time.Sub] would use instead.
	wall func() time.Time
	// awake is how long the machine has been awake since some moment.
	awake func() time.Duration
}

func systemClock() clock {
	return clock{
		wall:  func() time.Time { return time.Now().Round(0) },
		awake: newAwake(),
	}
}

// reading is what both clocks said at one moment.
type reading struct {
	wall  time.Time
	awake time.Duration
}

func (c clock) read() reading {
	return reading{wall: c.wall(), awake: c.awake()}
}

// sleeps tells one resume from the next.
type sleeps struct {
	clock clock
	// seen is the reading up to which sleep is accounted for. The clocks are
	// always compared with the last reading and never with the first, so that a
	// clock that was set, either way, matters once.
	seen reading
	// reported is the time of the last resume; nil: there was none.
	reported *reading
}

func newSleeps(c clock) *sleeps {
	return &sleeps{clock: c, seen: c.read()}
}

// jumped compares the clocks and reports whether they show a new resume. A clock
// set forward looks the same; set backward it looks like nothing.
func (s *sleeps) jumped() bool {
	now := s.clock.read()
	asleep := now.wall.Sub(s.seen.wall) - (now.awake - s.seen.awake)
	s.seen = now
	return asleep > shortestSleep && s.isNew(now)
}

// told reports whether a resume that somebody else has noticed is a new one. The
// jump of the clocks that belongs to it is accounted for.
func (s *sleeps) told() bool {
	s.seen = s.clock.read()
	return s.isNew(s.seen)
}

// isNew reports whether a resume noticed now is another than the last. It takes
// the clock that says more: a machine put back to sleep right after a resume
// hardly was awake between the two, and a clock that was set back says nothing.
func (s *sleeps) isNew(now reading) bool {
	if last := s.reported; last != nil &&
		max(now.wall.Sub(last.wall), now.awake-last.awake) < oneResume {
		return false
	}
	s.reported = &now
	return true
}
