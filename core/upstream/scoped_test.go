package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

func TestEachProjectHasItsInstanceUntilNobodyUsesIt(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		// Its lists are read by an instance that lives no longer than that.
		r.wantLiving()
		if s := r.shown(); s.State != status.Idle || s.Tools != 1 || len(s.Instances) != 0 || s.Stale || len(r.opened) != 1 {
			t.Errorf("at first: %+v, %d starts", s, len(r.opened))
		}
		one, same, other := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0]+"/"), newSessionIn("s3", dirs[1])
		for _, s := range []*fakeSession{one, same, other} {
			r.supervisor.Joined(s)
		}
		r.wantLiving() // nobody used it yet
		for _, s := range []*fakeSession{one, same, other} {
			if reply := r.answered(s); !strings.Contains(reply, filepath.Clean(s.folder)) {
				t.Errorf("%s in %s: %s", s.id, s.folder, reply)
			}
		}
		r.wantLiving(dirs[0], dirs[1])
		want := []status.Instance{{Folder: dirs[0], State: status.Connected}, {Folder: dirs[1], State: status.Connected}}
		if s := r.shown(); s.State != status.Connected || !cmp.Equal(s.Instances, want) {
			t.Errorf("in use: %+v", s)
		}
		r.supervisor.Left(one)
		time.Sleep(time.Hour) // the other one still uses it
		r.wantLiving(dirs[0], dirs[1])
		r.supervisor.Left(same)
		time.Sleep(4 * time.Minute)
		r.wantLiving(dirs[0], dirs[1])
		time.Sleep(2 * time.Minute)
		r.wantLiving(dirs[1])
		r.supervisor.Left(other)
		time.Sleep(6 * time.Minute)
		r.wantLiving()
		if s := r.shown(); s.State != status.Idle || len(s.Instances) != 0 || s.Since.IsZero() {
			t.Errorf("unused: %+v", s)
		}
	})
}

func TestProjectIsOneByWhateverNameItIsReached(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		link := filepath.Join(dirs[2], "link")
		if err := os.Symlink(dirs[0], link); err != nil {
			t.Skip(err)
		}
		for i, name := range []string{dirs[0], link, link + "/", dirs[0] + "/../p0"} {
			r.answered(newSessionIn(fmt.Sprint("s", i), name))
		}
		r.wantLiving(dirs[0])
		if reply := r.answered(newSessionIn("x", dirs[0]+"/none")); !strings.Contains(reply, "cannot be started") {
			t.Errorf("in a folder that is not there: %s", reply)
		}
	})
}

func TestInstanceThatIsUsedAgainInTimeStays(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one := newSessionIn("s1", dirs[0])
		r.answered(one)
		r.supervisor.Left(one)
		time.Sleep(4 * time.Minute)
		opened := len(r.opened)
		r.answered(newSessionIn("s2", dirs[0]))
		time.Sleep(time.Hour)
		r.wantLiving(dirs[0])
		if len(r.opened) != opened {
			t.Error("it was started again")
		}
	})
}

func TestInvariant3_InstanceBeginsWhenItsPredecessorIsGone(t *testing.T) {
	slow := func(r *scopedRig) { r.entry.IdleTimeout, r.closing = 0, 3*time.Second }
	inScoped(t, slow, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0])
		r.answered(one)
		r.supervisor.Left(one)
		synctest.Wait() // it is being stopped
		begun := time.Now()
		if reply := r.answered(two); !strings.Contains(reply, dirs[0]) || time.Since(begun) < r.closing {
			t.Errorf("after %s: %s", time.Since(begun), reply)
		}
	})
}

func TestEachSessionHasItsInstance(t *testing.T) {
	perSession := func(r *scopedRig) { r.entry.Scope = config.PerSession }
	inScoped(t, perSession, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two, homeless := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0]), newSessionIn("s3", "")
		for _, s := range []*fakeSession{one, two, homeless} {
			if reply := r.answered(s); !strings.Contains(reply, `"result"`) {
				t.Errorf("%s: %s", s.id, reply)
			}
		}
		r.wantLiving("", dirs[0], dirs[0])
		if s := r.shown(); len(s.Instances) != 3 || s.Instances[0].Folder != "s1 client" {
			t.Errorf("instances %+v", s.Instances)
		}
		r.supervisor.Left(two)
		time.Sleep(6 * time.Minute)
		r.wantLiving("", dirs[0])
	})
}

func TestThereAreOnlySoManyInstances(t *testing.T) {
	two := func(r *scopedRig) { r.entry.MaxInstances = 2 }
	inScoped(t, two, func(t *testing.T, r *scopedRig, dirs []string) {
		one, other, third := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[1]), newSessionIn("s3", dirs[2])
		r.answered(one)
		r.answered(other)
		if reply := r.answered(third); !strings.Contains(reply, `"error"`) || !strings.Contains(reply, "maxInstances") {
			t.Errorf("too many: %s", reply)
		}
		r.wantLiving(dirs[0], dirs[1])
		r.supervisor.Left(other)
		time.Sleep(time.Second)
		r.supervisor.Left(one)
		if reply := r.answered(third); !strings.Contains(reply, dirs[2]) {
			t.Errorf("there is room: %s", reply)
		}
		r.wantLiving(dirs[0], dirs[2]) // that of the other had been idle for longer
	})
}

func TestRequestsKeepTheirOrderWhileTheFolderIsFoundOut(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		s := newSessionIn("s1", dirs[0])
		s.wait = time.Second
		for i := range 20 {
			q := request(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hang"}}`, i), s)
			q.From = s
			r.server().Forward(q)
			switch i {
			case 3:
				if !r.server().Cancel(q, nil) {
					t.Error("what waits cannot be cancelled")
				}
			case 4:
				if !r.server().Recall(q) || r.server().Recall(q) {
					t.Error("what waits cannot be taken back, or twice")
				}
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		up := r.upstreamOf("s1")
		up.mu.Lock()
		l := up.link
		up.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		var ids []int64
		for id := range l.waiting {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		var got []string
		for _, id := range ids {
			m := l.waiting[id].request.Message
			got = append(got, string(m.ID.Of(m.Raw)))
		}
		if want := strings.Fields("0 1 2 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"); !slices.Equal(got, want) {
			t.Errorf("sent %s", got)
		}
	})
}

// Requests that come while those before them are sent on do not overtake these.
func TestRequestsDoNotOvertakeThoseThatWaited(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		r.answered(newSessionIn("s0", dirs[0]))
		s := newSessionIn("s1", dirs[0])
		s.wait = time.Second
		var late *Request
		r.last().sending = func(m jsonrpc.Message) {
			if m.MethodName() == "tools/call" && late == nil {
				late = request(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"hang"}}`, s)
				late.From = s
				r.server().Forward(late)
			}
		}
		r.call(s, "hang")
		second := r.call(s, "hang")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l := r.upstreamOf("s1").connection()
		if before, after := l.find(second), l.find(late); before == 0 || after < before {
			t.Errorf("sent as %d and %d", before, after)
		}
	})
}

// upstreamOf is the instance that a session uses.
func (r *scopedRig) upstreamOf(id string) *Upstream {
	r.t.Helper()
	s, ok := r.server().(*scoped)
	if !ok {
		r.t.Fatal("no server with instances")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bindings[id].instance.upstream
}

func TestListsThatDependOnTheProjectComeFromTheFirstOne(t *testing.T) {
	needs := func(r *scopedRig) { r.entry.NeedsFolder = true }
	inScoped(t, needs, func(t *testing.T, r *scopedRig, dirs []string) {
		if s := r.shown(); s.State != status.Idle || s.Tools != 0 || !strings.Contains(s.LastError, "PROJECT_DIR") || len(r.opened) != 0 {
			t.Errorf("at first: %+v, %d starts", s, len(r.opened))
		}
		select {
		case <-r.server().Settled():
		default:
			t.Error("it holds the first lists")
		}
		r.supervisor.Joined(newSessionIn("s1", ""))
		r.wantLiving()
		for i, dir := range dirs {
			r.supervisor.Joined(newSessionIn(fmt.Sprint("s", i+2), dir))
		}
		if living := r.living(); len(living) != 1 {
			t.Errorf("started for the lists: %s", living)
		}
		if s := r.shown(); s.Tools != 1 || s.LastError != "" {
			t.Errorf("then: %+v", s)
		}
		if reply := r.answered(newSessionIn("s9", "")); !strings.Contains(reply, "has no folder") {
			t.Errorf("without a folder: %s", reply)
		}
	})
}

func TestRememberedListsStartNothing(t *testing.T) {
	known := func(r *scopedRig) { r.remembered = Lists{Tools: [][]byte{[]byte(`{"name":"old"}`)}} }
	inScoped(t, known, func(t *testing.T, r *scopedRig, dirs []string) {
		if s := r.shown(); s.State != status.Idle || s.Tools != 1 || !s.Stale || len(r.opened) != 0 {
			t.Errorf("at first: %+v, %d starts", s, len(r.opened))
		}
		r.answered(newSessionIn("s1", dirs[0]))
		if lists, visible := r.server().Lists(); !visible || string(lists.Tools[0]) != `{"name":"x"}` || r.shown().Stale {
			t.Errorf("then: %s", lists.Tools)
		}
		if fingerprint, _ := r.server().LastGood(); fingerprint != r.entry.Fingerprint() {
			t.Error("they are kept for another entry")
		}
	})
}

func TestSessionSeesTheListsOfItsInstance(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[1])
		r.answered(one)
		of := r.last()
		r.answered(two)
		sees := func(id string) string {
			synctest.Wait()
			lists, _ := r.server().Lists()
			if special, _, own := r.server().ListsFor(id); own {
				lists = special
			}
			return string(lists.Tools[0])
		}
		synctest.Wait()
		changes := r.changes
		of.mu.Lock()
		of.answers = func(_ *fakeTransport, m jsonrpc.Message) []byte {
			return jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(`{"tools":[{"name":"new"}]}`))
		}
		of.mu.Unlock()
		of.reply([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		for id, want := range map[string]string{"s1": `{"name":"new"}`, "s2": `{"name":"x"}`, "": `{"name":"x"}`} {
			if got := sees(id); got != want {
				t.Errorf("session %q sees %s", id, got)
			}
		}
		if r.changes == changes {
			t.Error("nobody was told")
		}
		r.server().SetEnabled(false)
		if got := sees("s1"); got != `{"name":"x"}` {
			t.Errorf("without an instance: %s", got)
		}
	})
}

func TestServersRequestGoesToItsOwnSession(t *testing.T) {
	perSession := func(r *scopedRig) { r.entry.Scope = config.PerSession }
	inScoped(t, perSession, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0])
		r.answered(one)
		of := r.last()
		r.answered(two)
		of.reply([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)) // nothing is under way
		of.reply([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
		synctest.Wait()
		if len(one.asked) != 1 || len(two.asked) != 0 {
			t.Errorf("%d and %d questions", len(one.asked), len(two.asked))
		}
		if diff := cmp.Diff([]string{"[s1]notifications/message"}, r.news); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRequestInAProjectOfSeveralSessionsGoesToNobodyUnlessItIsClearForWhom(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0])
		r.answered(one)
		of := r.last()
		ask := func() { of.reply([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)); synctest.Wait() }
		ask()
		if len(one.asked) != 1 {
			t.Error("the only session was not asked")
		}
		r.answered(two)
		ask()
		if len(one.asked)+len(two.asked) != 1 {
			t.Error("one of two was asked")
		}
		r.call(two, "hang")
		ask()
		if len(two.asked) != 1 {
			t.Error("the only one with a call under way was not asked")
		}
		r.call(one, "hang")
		ask()
		if len(one.asked)+len(two.asked) != 2 {
			t.Error("one of two with calls under way was asked")
		}
	})
}
