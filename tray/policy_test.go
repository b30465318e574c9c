package tray

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core/status"
)

// scene plays states over time and notes what is told when.
type scene struct {
	policy   Policy
	tellings tellings
	servers  []status.Server
	config   string
	now      time.Duration // since noon, when the tray starts
	wake     time.Time
	told     []string
	screen   map[string]Notice // by key
}

// usual is how most users have it.
var usual = Policy{Enabled: true, After: 10 * time.Second}

// set gives a server a state.
func (s *scene) set(name string, state status.State) {
	server := status.Server{Name: name, State: state, Enabled: true, LastError: "why"}
	i := slices.IndexFunc(s.servers, func(other status.Server) bool { return other.Name == name })
	s.servers = slices.Clone(s.servers)
	if i < 0 {
		s.servers = append(s.servers, server)
	} else {
		s.servers[i] = server
	}
}

// decide decides at the present moment.
func (s *scene) decide() {
	var notices []Notice
	notices, s.tellings, s.wake = decide(moment{
		snapshot: status.Snapshot{Servers: s.servers, Config: status.Config{Error: s.config}},
		now:      noon.Add(s.now), started: noon, policy: s.policy,
	}, s.tellings)
	for _, n := range notices {
		line := ""
		if n.Title != "" {
			line = " " + n.Title
		}
		for _, key := range n.Closes {
			line += " -" + key
			delete(s.screen, key)
		}
		if n.Title != "" {
			s.screen[n.Key] = n
		}
		s.told = append(s.told, s.now.String()+line)
	}
}

// pass lets time pass, until d after the start, deciding when that is asked for.
func (s *scene) pass(d time.Duration) {
	for n := 0; !s.wake.IsZero() && !s.wake.After(noon.Add(d)); n++ {
		if n > 100 {
			panic("it never rests")
		}
		s.now = max(s.now, s.wake.Sub(noon))
		s.decide()
	}
	s.now = d
}

// play follows a script, "SECONDS NAME STATE" a line, and returns what was told,
// each with its time.
func play(t *testing.T, policy Policy, script string) []string {
	t.Helper()
	states := map[string]status.State{
		"up": status.Connected, "lost": status.Reconnecting, "probe": status.SlowProbe, "login": status.NeedsAuth,
		"starting": status.Connecting, "off": status.Disabled, "wrong": status.Invalid,
	}
	s := &scene{policy: policy, screen: make(map[string]Notice)}
	for line := range strings.Lines(strings.TrimSpace(script)) {
		var at float64
		var names, word string
		if _, err := fmt.Sscan(line, &at, &names, &word); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s.pass(time.Duration(at * float64(time.Second)))
		for name := range strings.SplitSeq(names, ",") {
			switch {
			case name == "config":
				s.config = strings.TrimPrefix(word, "fine")
			case name == "notices":
				s.policy.Enabled = word == "on"
			case word == "gone":
				s.servers = slices.DeleteFunc(slices.Clone(s.servers), func(other status.Server) bool { return other.Name == name })
			case states[word] == "":
				t.Fatalf("no state %q", word)
			default:
				s.set(name, states[word])
			}
		}
		s.decide()
		s.screenIsKnown(t)
	}
	s.pass(24 * time.Hour)
	s.screenIsKnown(t)
	return s.told
}

func TestPolicy(t *testing.T) {
	quiet := Policy{Enabled: true, After: 10 * time.Second, QuietAfterStart: 30 * time.Second}
	for name, c := range map[string]struct {
		policy Policy
		script string
		want   []string
	}{
		"a short fault":                   {usual, "0 x up\n10 x lost\n19 x up", nil},
		"a first connection that is slow": {usual, "0 x starting\n60 x up", nil},
		"a fault that lasts": {usual, "0 x up\n10 x lost\n100 x up",
			[]string{"22s x is reconnecting", "1m42s x recovered"}},
		"on to slow probe": {usual, "0 x up\n10 x lost\n60 x probe\n61 x starting\n62 x probe\n100 x up",
			[]string{"22s x is reconnecting", "1m2s x: slow probe", "1m42s x recovered"}},
		"slow probe at once":             {usual, "0 x up\n10 x probe\n20 x up", []string{"12s x: slow probe", "22s x recovered"}},
		"over while it waits for others": {usual, "0 x up\n10 x probe\n11 x up", nil},
		"back while its recovery waits": {usual, "0 x probe\n10 x up\n11 x probe\n30 x up",
			[]string{"2s x: slow probe", "32s x recovered"}},
		"reconnected by hand": {usual, "0 x probe\n10 x starting\n11 x lost\n30 x probe\n40 x up",
			[]string{"2s x: slow probe", "42s x recovered"}},
		"a log-in is asked for once": {usual, "0 x login\n10 x starting\n11 x login\n3600 x lost\n3601 x login\n3700 x up",
			[]string{"2s x needs a log-in", "1h1m42s x recovered"}},
		"from slow probe to log-in": {usual, "0 x probe\n10 x login\n20 x up",
			[]string{"2s x: slow probe", "12s x needs a log-in", "22s x recovered"}},
		"switched off meanwhile": {usual, "0 x probe\n10 x off\n20 x up", []string{"2s x: slow probe", "10s -server x"}},
		"removed meanwhile":      {usual, "0 x probe\n10 x gone\n20 x up", []string{"2s x: slow probe", "10s -server x"}},
		"made invalid":           {usual, "0 x probe\n10 x wrong\n20 x up", []string{"2s x: slow probe", "10s -server x"}},
		"removed while it waits": {usual, "0 x probe\n1 x gone", nil},

		"two are told of each": {usual, "0 a,b,c up\n10 a probe\n11 b probe\n20 a,b up",
			[]string{"12s a: slow probe", "12s b: slow probe", "22s a recovered", "22s b recovered"}},
		"three are told of together": {usual, "0 a,b,c up\n10 a probe\n11 b probe\n11.5 c probe\n20 a,b,c up",
			[]string{"12s 3 servers: slow probe", "22s 3 servers recovered"}},
		"they were told of before": {usual, "0 a,b,c,d up\n10 a lost\n60 a,b,c probe\n100 a,b,c up",
			[]string{"22s a is reconnecting", "1m2s 3 servers: slow probe -server a", "1m42s 3 servers recovered"}},
		"lost together": {usual, "0 a,b,c up\n10 a,b,c lost\n100 a,b,c up",
			[]string{"22s 3 servers are reconnecting", "1m42s 3 servers recovered"}},
		"lost and given up together": {usual, "0 a,b,c lost\n11 a probe\n14 b probe\n17 c probe",
			[]string{"12s 3 servers are reconnecting", "19s 3 servers: slow probe"}},
		"it grows in place": {usual, "0 a,b,c probe\n9 d probe\n10 e probe\n30 f probe",
			[]string{"2s 3 servers: slow probe", "11s 5 servers: slow probe", "32s f: slow probe"}},
		"it grows for a while only": {
			usual, "0 a,b,c probe\n9 d probe\n18 e probe",
			[]string{"2s 3 servers: slow probe", "11s 4 servers: slow probe", "20s e: slow probe"},
		},
		"too late to grow": {usual, "0 a,b,c probe\n13 d probe",
			[]string{"2s 3 servers: slow probe", "15s d: slow probe"}},
		"one of them recovers": {usual, "0 a,b,c,d probe\n20 b up\n60 a,c,d up",
			[]string{"2s 4 servers: slow probe", "22s b recovered", "22s 3 servers: slow probe", "1m2s 3 servers recovered"}},
		"some recover": {usual, "0 a,b,c,d probe\n20 a,b,c up\n60 d up",
			[]string{"2s 4 servers: slow probe", "22s 3 servers recovered", "1m2s -several", "1m2s d recovered"}},
		"it shrinks while it could grow": {usual, "0 a,b,c probe\n4 a,b up\n5 d probe\n20 d up",
			[]string{"2s 3 servers: slow probe", "6s d: slow probe", "6s a recovered", "6s b recovered", "6s c: slow probe", "22s d recovered"}},
		"it follows when they are given up one by one": {usual, "0 a,b,c up\n10 a,b,c lost\n60 a probe\n75 b probe\n90 c probe",
			[]string{
				"22s 3 servers are reconnecting", "1m2s a: slow probe", "1m2s 2 servers are reconnecting",
				"1m17s b: slow probe", "1m17s c is reconnecting", "1m32s -several", "1m32s c: slow probe",
			}},
		"from several log-ins to slow probe": {usual, "0 a,b,c,d login\n60 a,b,c probe\n90 d probe",
			[]string{"2s 4 servers need a log-in", "1m2s 3 servers: slow probe", "1m2s d needs a log-in", "1m32s -several log-ins", "1m32s d: slow probe"}},
		"from slow probe to several log-ins": {usual, "0 a,b,c probe\n60 a,b,c login",
			[]string{"2s 3 servers: slow probe", "1m2s -several", "1m2s 3 servers need a log-in"}},
		"one of them is switched off": {usual, "0 a,b,c,d probe\n20 a off\n30 b gone\n40 c,d off",
			[]string{"2s 4 servers: slow probe", "20s 3 servers: slow probe", "30s 2 servers: slow probe", "40s -several"}},
		"what is still down is switched off": {usual, "0 a,b,c,d probe\n20 a,b,c up\n60 d off",
			[]string{"2s 4 servers: slow probe", "22s 3 servers recovered", "1m0s -several"}},
		"logins together": {usual, "0 a,b,c login\n20 a,b,c up",
			[]string{"2s 3 servers need a log-in", "22s -several log-ins", "22s 3 servers recovered"}},
		"one fails again after they recovered": {usual, "0 a,b,c probe\n20 a,b,c up\n60 a probe",
			[]string{"2s 3 servers: slow probe", "22s 3 servers recovered", "1m2s -several", "1m2s a: slow probe"}},

		"flapping": {usual, strings.Join([]string{
			"0 x probe", "60 x up", "120 x probe", "180 x up", "240 x probe", "300 x up", "360 x probe", "420 x up",
			"480 x probe", "540 x up", "600 x probe", "660 x up", "720 x probe", "900 x up", "2000 x probe"}, "\n"),
			[]string{
				"2s x: slow probe", "1m2s x recovered", // the first cycle
				"2m2s x: slow probe", "3m0s -server x", // its recovery is held back
				"12m2s x: slow probe", "15m0s -server x",
				"33m22s x: slow probe", // calm for long enough
			}},
		"a flapping server that stays down": {usual, "0 x probe\n60 x up\n120 x probe\n180 x up\n200 x lost",
			[]string{"2s x: slow probe", "1m2s x recovered", "2m2s x: slow probe", "3m0s -server x", "12m2s x is reconnecting"}},
		"what it says is closed when the contrary is held back": {usual, "0 x probe\n60 x up\n120 x probe\n500 x up\n900 x lost\n1000 x up",
			[]string{"2s x: slow probe", "1m2s x recovered", "2m2s x: slow probe", "8m20s -server x", "15m12s x is reconnecting", "16m40s -server x"}},
		"flapping together": {usual, "0 a,b,c probe\n60 a,b,c up\n120 a,b,c probe\n180 a,b,c up\n240 a,b,c probe\n300 a,b,c up",
			[]string{"2s 3 servers: slow probe", "1m2s 3 servers recovered", "2m2s 3 servers: slow probe", "3m0s -several"}},
		"one of several flaps": {usual, "0 a,b,c probe\n60 a up\n120 a probe\n180 a up",
			[]string{"2s 3 servers: slow probe", "1m2s a recovered", "1m2s 2 servers: slow probe", "2m2s a: slow probe", "3m0s -server a"}},

		"not flapping": {usual, "0 x probe\n60 x up\n700 x probe\n760 x up",
			[]string{"2s x: slow probe", "1m2s x recovered", "11m42s x: slow probe", "12m42s x recovered"}},
		"short faults are no cycles": {usual, "0 x up\n10 x lost\n15 x up\n20 x lost\n25 x up\n30 x lost\n50 x up",
			[]string{"42s x is reconnecting", "52s x recovered"}},

		"quiet at first":   {quiet, "0 x lost\n20 x up\n25 x lost\n28 x up", nil},
		"it outlasts that": {quiet, "0 x probe\n40 x up", []string{"30s x: slow probe", "42s x recovered"}},
		"all outlast that": {quiet, "0 a,b,c lost\n1 config broken", []string{"30s 3 servers are reconnecting", "30s Configuration error"}},
		"lost at its end":  {quiet, "0 x up\n25 x lost", []string{"37s x is reconnecting"}},
		"faults in it do not count as cycles": {quiet, "0 x probe\n5 x up\n10 x probe\n15 x up\n40 x probe\n50 x up",
			[]string{"42s x: slow probe", "52s x recovered"}},

		"the configuration": {usual, "0 config broken\n1 config worse\n2 config worse\n9 config fine\n20 config broken",
			[]string{"0s Configuration error", "1s Configuration error", "9s -config", "20s Configuration error"}},

		"switched off": {Policy{After: time.Second}, "0 x probe\n1 config broken\n10 x up\n20 a,b,c probe", nil},
		"switched on while it lasts": {Policy{After: time.Second}, "0 x probe\n0 config broken\n100 notices on",
			[]string{"1m40s x: slow probe", "1m40s Configuration error"}},
		"switched off while it lasts": {usual, "0 x probe\n10 notices off\n20 x up\n30 notices on\n40 x up", []string{"2s x: slow probe", "10s -server x -command"}},
		"switched off with a full screen": {usual, "0 a,b,c probe\n0 d,e,f login\n0 config broken\n20 x probe\n30 a,b,c,x up\n40 y probe\n50 notices off\n51 y up\n60 notices on",
			[]string{
				"0s Configuration error", "2s 3 servers: slow probe", "2s 3 servers need a log-in", "22s x: slow probe",
				"32s 4 servers recovered -server x", "42s y: slow probe", "50s -several -several log-ins -server y -config -command",
			}},
		"switched off as it recovers": {usual, "0 x probe\n0 a,b,c login\n10 x up\n11 x off\n11 a off\n11 notices off\n12 notices off\n20 notices on",
			[]string{"2s x: slow probe", "2s 3 servers need a log-in", "11s -server x", "11s 2 servers need a log-in", "11s -several log-ins -command"}},
		"switched off while it waits": {usual, "0 x probe\n1 notices off\n20 notices on", []string{"1s -command", "20s x: slow probe"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, play(t, c.policy, c.script)); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoticeTexts(t *testing.T) {
	s := &scene{policy: usual}
	names := []string{"a", "b", "c", "d_e", "<f>"}
	say := func(state status.State) Notice {
		t.Helper()
		for _, name := range names {
			s.set(name, state)
		}
		_, s.tellings, _ = decide(moment{
			snapshot: status.Snapshot{Servers: s.servers}, now: noon.Add(s.now), policy: s.policy,
		}, s.tellings)
		s.now += gatherFor
		var notices []Notice
		notices, s.tellings, _ = decide(moment{
			snapshot: status.Snapshot{Servers: s.servers}, now: noon.Add(s.now), policy: s.policy,
		}, s.tellings)
		if len(notices) == 2 && notices[0].Title == "" { // the one before is closed
			notices = notices[1:]
		}
		if len(notices) != 1 {
			t.Fatalf("%s: notices %+v", state, notices)
		}
		return notices[0]
	}
	for _, step := range []struct {
		state       status.State
		names       int
		title, body string
		key         string
		offers      bool
	}{
		{status.SlowProbe, 1, "a: slow probe", "why", "server a", true},
		{status.NeedsAuth, 1, "a needs a log-in", "why", "server a", true},
		{status.Connected, 1, "a recovered", "Connected again, 0 tools.", "server a", false},
		{status.SlowProbe, 5, "5 servers: slow probe", "a, b, c and 2 more.", "several", false},
		{status.NeedsAuth, 5, "5 servers need a log-in", "a, b, c and 2 more.", "several log-ins", false},
	} {
		s.now += time.Hour
		names = []string{"a", "b", "c", "d_e", "<f>"}[:step.names]
		n := say(step.state)
		if n.Title != step.title || n.Body != step.body || n.Key != step.key || n.Offers != step.offers ||
			n.Icon != shape(step.state) || n.State != step.state {
			t.Errorf("%s: %+v", step.state, n)
		}
	}
}

// screenIsKnown checks that what is remembered of the screen is what is on it.
func (s *scene) screenIsKnown(t *testing.T) {
	t.Helper()
	for key, on := range map[string]bool{
		keySeveral: s.tellings.several.members != nil, keyLogins: s.tellings.logins.members != nil,
	} {
		if n, shown := s.screen[key]; shown != on || s.tellings.several.stale || s.tellings.logins.stale {
			t.Fatalf("on the screen is %+v, and remembered %+v: %q", n, s.tellings, s.told)
		}
	}
	for _, server := range s.servers {
		if n, shown := s.screen[serverKey(server.Name)]; shown != s.tellings.servers[server.Name].shown {
			t.Fatalf("on the screen is %+v, and remembered %+v: %q", n, s.tellings.servers[server.Name], s.told)
		}
	}
}

// Whatever happens: it rests, what is told of is true, a server that never changes is
// told of once, and nothing is told while notices are off.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte{0x00, 0x13, 0x22, 0x31, 0x00})
	f.Add([]byte{0x02, 0x12, 0x22, 0x32, 0xf0, 0x01, 0x11, 0x21, 0x31, 0xff})
	states := []status.State{
		status.Connected, status.Reconnecting, status.SlowProbe, status.NeedsAuth, status.Connecting, status.Disabled,
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		s := &scene{
			policy: Policy{Enabled: true, After: time.Second, QuietAfterStart: 3 * time.Second}, screen: make(map[string]Notice),
		}
		for _, b := range script[:min(200, len(script))] {
			switch server, what := b>>4&7, int(b&15); {
			case b == 0xff:
				s.policy.Enabled = !s.policy.Enabled
			case what < len(states):
				s.set(fmt.Sprint("s", server), states[what])
			default:
				s.pass(s.now + time.Duration(what-len(states))*time.Second)
			}
			s.decide()
			if !s.policy.Enabled && len(s.screen) > 0 {
				t.Fatalf("on the screen while notices are off: %v: %q", s.screen, s.told)
			}
			s.screenIsKnown(t)
		}
		s.policy.Enabled = true
		s.decide()
		s.pass(s.now + time.Hour)
		for _, server := range s.servers {
			one := s.tellings.servers[server.Name]
			switch server.State {
			case status.SlowProbe, status.NeedsAuth:
				for place, g := range map[string]digest{"several": s.tellings.several, "logins": s.tellings.logins} {
					if slices.Contains(g.members, server.Name) && (g.kind == kindLogin) != (server.State == status.NeedsAuth) {
						t.Fatalf("%s is in %s, and the notice %s says something else: %q", server.Name, server.State, place, s.told)
					}
				}
				if one.told != server.State {
					t.Fatalf("%s is in %s, and the user was told %q: %q", server.Name, server.State, one.told, s.told)
				}
			case status.Connecting, status.Reconnecting, status.Idle, status.Invalid:
			case status.Connected, status.Disabled:
				if slices.Contains(s.tellings.several.others, server.Name) || slices.Contains(s.tellings.logins.members, server.Name) {
					t.Fatalf("%s is in %s, and a notice says that it is down: %q", server.Name, server.State, s.told)
				}
				if one.told != "" || !one.news.IsZero() {
					t.Fatalf("%s is in %s, and the user still believes in %q: %q", server.Name, server.State, one.told, s.told)
				}
			}
			for place, g := range map[string]digest{"several": s.tellings.several, "logins": s.tellings.logins} {
				if slices.Contains(g.members, server.Name) && (g.kind == kindRecovery) != (server.State == status.Connected) &&
					server.State != status.Connecting && server.State != status.Disabled && server.State != status.Reconnecting {
					t.Fatalf("%s is in %s, and the notice %s says the contrary: %q", server.Name, server.State, place, s.told)
				}
			}
		}
	})
}
