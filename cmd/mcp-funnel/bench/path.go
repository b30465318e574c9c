package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// How much one subject does in one round.
const (
	smallCalls = 300
	burstCalls = 60 // per caller
	largeCalls = 15
	listCalls  = 15
)

// subject is one way to the server.
type subject struct {
	name   string
	client *client
	// prefix goes before the names of the tools.
	prefix string
	rounds []sample
}

// sample is what one subject did in one round.
type sample struct {
	small, large, list time.Duration // medians of single calls
	rate               float64       // calls a second with all callers
}

// measurePath compares the three ways to the server in interleaved rounds.
func measurePath(ctx context.Context, p *place, rounds int, t *table) (err error) {
	subjects, stop, err := openSubjects(ctx, p)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	for round := -1; round < rounds; round++ { // the first one warms up
		for i := range subjects {
			// Each one is the first as often as the others.
			s := subjects[(i+max(round, 0))%len(subjects)]
			took, err := s.round()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round >= 0 {
				s.rounds = append(s.rounds, took)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	t.compare(subjects[0], subjects[1], subjects[2])
	return nil
}

// openSubjects starts everything. stop ends what was started, also upon an error.
func openSubjects(ctx context.Context, p *place) (subjects [3]*subject, stop func() error, err error) {
	var closers []func() error
	stop = func() (err error) {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
		return err
	}
	relayd := p.command(ctx, p.self, "relayd", p.relaySocket())
	if err := relayd.Start(); err != nil {
		return subjects, stop, fmt.Errorf("starting the relay: %w", err)
	}
	closers = append(closers, (&running{relayd}).stop)
	app, err := p.startApp(ctx, manyTools)
	if err != nil {
		return subjects, stop, err
	}
	closers = append(closers, app.stop)
	server := p.command(ctx, p.self, echoArgs(manyTools)...)
	relay := p.command(ctx, p.self, "relay", p.relaySocket())
	subjects = [3]*subject{{name: "server alone"}, {name: "byte relay"}, {name: "funnel", prefix: "bench__"}}
	for i, s := range subjects {
		cmd := server
		switch i {
		case 1:
			cmd = relay
		case 2:
			cmd = p.bridge(ctx)
		}
		if s.client, err = startClient(cmd); err != nil {
			return subjects, stop, err
		}
		closers = append(closers, s.client.close)
		if err := s.client.open(); err != nil {
			return subjects, stop, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return subjects, stop, nil
}

func (p *place) relaySocket() string { return filepath.Join(p.dir, "run", "relay.sock") }

// round takes one sample.
func (s *subject) round() (sample, error) {
	small := newRequest(0, "tools/call", fmt.Sprintf(`"name":"%ssmall","arguments":{"message":"hello, world"},`, s.prefix))
	large := newRequest(0, "tools/call", fmt.Sprintf(`"name":"%slarge","arguments":{},`, s.prefix))
	var took sample
	var err error
	if took.small, err = s.typical(smallCalls, small, 1); err != nil {
		return took, err
	}
	if took.rate, err = s.burst(); err != nil {
		return took, err
	}
	if took.large, err = s.typical(largeCalls, large, largeAnswer); err != nil {
		return took, err
	}
	took.list, err = s.typical(listCalls, newRequest(0, "tools/list", ""), manyTools*100)
	return took, err
}

// typical is the median time of n calls one after the other.
func (s *subject) typical(n int, r request, atLeast int) (time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		begun := time.Now()
		if err := s.client.call(0, r, atLeast); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun))
	}
	return median(took), nil
}

// burst is how many small calls a second all callers together make.
func (s *subject) burst() (float64, error) {
	var working sync.WaitGroup
	var failed [callers]error
	begun := time.Now()
	for caller := range callers {
		r := newRequest(caller, "tools/call", fmt.Sprintf(`"name":"%ssmall","arguments":{"message":"hello, world"},`, s.prefix))
		working.Go(func() {
			for range burstCalls {
				if failed[caller] = s.client.call(caller, r, 1); failed[caller] != nil {
					return
				}
			}
		})
	}
	working.Wait()
	return callers * burstCalls / time.Since(begun).Seconds(), errors.Join(failed[:]...)
}

// median of values, of which there is at least one.
func median[T time.Duration | float64](values []T) T {
	_, middle, _ := quartiles(values)
	return middle
}

// quartiles are the values a quarter, half and three quarters up.
func quartiles[T time.Duration | float64](values []T) (low, middle, high T) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	return sorted[n/4], sorted[n/2], sorted[n*3/4]
}
