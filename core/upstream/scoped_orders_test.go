package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

func TestOrdersConcernAllInstances(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one, two := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[1])
		r.answered(one)
		r.answered(two)
		opened := len(r.opened)
		r.server().Reconnect()
		r.wantLiving(dirs[0], dirs[1])
		if len(r.opened) != opened+2 {
			t.Errorf("reconnect: %d starts", len(r.opened)-opened)
		}
		r.entry.IdleTimeout, r.entry.MaxInstances = time.Minute, 3
		r.apply()
		synctest.Wait()
		if len(r.opened) != opened+2 {
			t.Error("restarted by what does not concern an instance")
		}
		r.entry.Headers = map[string]string{"A": "b"}
		r.apply()
		r.wantLiving(dirs[0], dirs[1])
		if len(r.opened) != opened+4 {
			t.Errorf("changed: %d starts", len(r.opened)-opened-2)
		}
		r.call(one, "hang")
		r.server().SetEnabled(false)
		if reply := one.inbox.wait(t); !strings.Contains(reply, "switched off") {
			t.Errorf("under way: %s", reply)
		}
		r.wantLiving()
		if s := r.shown(); s.State != status.Disabled || s.Enabled || len(s.Instances) != 0 {
			t.Errorf("off: %+v", s)
		}
		if reply := r.answered(one); !strings.Contains(reply, "switched off") {
			t.Errorf("off: %s", reply)
		}
		if _, visible := r.server().Lists(); visible {
			t.Error("its tools are still listed")
		}
		r.server().SetEnabled(true)
		synctest.Wait()
		if s := r.shown(); s.State != status.Idle {
			t.Errorf("on again: %+v", s)
		}
		r.answered(one)
		r.wantLiving(dirs[0])
		r.entry.Problem = &config.Issue{Message: "wrong"}
		r.apply()
		r.wantLiving()
		if s := r.shown(); s.State != status.Invalid || s.LastError == "" {
			t.Errorf("wrong: %+v", s)
		}
	})
}

func TestScopeCanBeChanged(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one := newSessionIn("s1", dirs[0])
		r.supervisor.Joined(one)
		r.answered(one)
		r.entry.Scope = config.PerSession
		r.apply()
		if reply := r.answered(one); !strings.Contains(reply, dirs[0]) {
			t.Errorf("reply %s", reply)
		}
		if s := r.shown(); len(s.Instances) != 1 || s.Instances[0].Folder != "s1 client" {
			t.Errorf("%+v", s)
		}
		r.wantLiving(dirs[0])
		r.supervisor.Apply(nil, func(string) bool { return false })
		r.wantLiving()
	})
}

func TestSessionWithOtherRootsMoves(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		one := newSessionIn("s1", dirs[0])
		r.answered(one)
		one.folder = dirs[1]
		r.server().Notify(one, []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
		r.wantLiving(dirs[0])
		if reply := r.answered(one); !strings.Contains(reply, dirs[1]) {
			t.Errorf("reply %s", reply)
		}
		time.Sleep(6 * time.Minute)
		r.wantLiving(dirs[1])
	})
}

// A start that takes long does not hold its caller for ever.
func TestCallToAnInstanceThatStartsSlowlyIsToldSo(t *testing.T) {
	inScoped(t, func(r *scopedRig) { r.remembered = Lists{Instructions: "known"} }, func(t *testing.T, r *scopedRig, dirs []string) {
		s := newSessionIn("s1", dirs[0])
		s.wait = time.Second
		scoped, ok := r.server().(*scoped)
		if !ok {
			t.Fatal("no server with instances")
		}
		open := scoped.deps.Open
		scoped.deps.Open = func(entry config.Server) Opener {
			return func(ctx context.Context) (Transport, error) {
				select {
				case <-time.After(30 * time.Second):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return open(entry)(ctx)
			}
		}
		begun := time.Now()
		if reply := r.answered(s); !strings.Contains(reply, "starting") || !strings.Contains(reply, `\"s\"`) {
			t.Errorf("reply %s", reply)
		}
		if took := time.Since(begun); took != parkTime {
			t.Errorf("after %s", took)
		}
		r.call(s, "x")
		time.Sleep(time.Second)
		r.server().SetEnabled(false)
		if reply := s.inbox.wait(t); !strings.Contains(reply, "switched off") {
			t.Errorf("switched off meanwhile: %s", reply)
		}
		r.server().SetEnabled(true)
		r.call(s, "x")
		s.inbox.wait(t)
		time.Sleep(30 * time.Second)
		if reply := r.answered(s); !strings.Contains(reply, dirs[0]) {
			t.Errorf("later: %s", reply)
		}
	})
}

func TestInvariant4_QuitAnswersWhatWaitsForAnInstance(t *testing.T) {
	inScoped(t, nil, func(t *testing.T, r *scopedRig, dirs []string) {
		slow, fast := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[1])
		slow.wait = time.Hour
		r.call(slow, "x")
		r.answered(fast)
		r.call(fast, "hang")
		synctest.Wait()
		r.cancel()
		for _, s := range []*fakeSession{slow, fast} {
			if reply := s.inbox.wait(t); !strings.Contains(reply, `"error"`) {
				t.Errorf("%s: %s", s.id, reply)
			}
		}
		<-r.done
		if reply := r.answered(slow); !strings.Contains(reply, "not there any more") {
			t.Errorf("after the end: %s", reply)
		}
		r.wantLiving()
	})
}
