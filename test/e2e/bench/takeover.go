package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/bench/natsservers"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// serversOfLog is the number of NATS servers that keep the log of the scenario takeover.
const serversOfLog = 3

// onStandby is a standby's message once its state is up to date with the log and the cluster.
const onStandby = "knows the cluster, on standby"

// takeover lets two schedulers share a log in NATS JetStream, lets the leader bind all pods, kills it, and measures
// the time until the other one has bound one more gang.
func (b *bench) takeover(ctx context.Context, choice string) (r result, err error) {
	dir, err := os.MkdirTemp("", "rollcall-nats-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	servers, err := natsservers.Start(dir, serversOfLog)
	if err != nil {
		return r, err
	}
	defer servers.Stop()
	w := b.watch(ctx)
	defer w.stop()
	if err := b.createBound(ctx); err != nil {
		return r, err
	}
	leader, err := b.startOn(ctx, choice, servers.Name("takeover"), "first")
	if err != nil {
		return r, err
	}
	defer leader.Kill()
	if _, err := b.create(ctx, b.pods-b.bound-b.gang, b.gang); err != nil {
		return r, err
	}
	if err := w.wait(ctx, b.pods-b.gang); err != nil {
		return r, fmt.Errorf("%w; the leader's output:\n%s", err, leader.Tail(20))
	}
	standby, err := b.startOn(ctx, choice, servers.Name("takeover"), "second")
	if err != nil {
		return r, err
	}
	defer standby.Kill()
	if err := awaitOutput(ctx, standby, onStandby); err != nil {
		return r, err
	}
	if _, err := b.settled(ctx, standby); err != nil {
		return r, err
	}
	before, err := b.cost(ctx, standby)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	leader.Kill()
	if _, err := b.create(ctx, b.gang, b.gang); err != nil {
		return r, err
	}
	r, err = b.finish(ctx, result{Pods: b.pods}, standby, w, before, begun)
	if err == nil {
		r.Stages, err = stages(standby.Output, begun)
	}
	return r, err
}

// startOn starts a scheduler of a log that others may have, too.
func (b *bench) startOn(ctx context.Context, choice, log, user string) (*schedulers.Scheduler, error) {
	return schedulers.Start(ctx, b.c, schedulers.Options{
		Choice: choice, FeatureGates: map[string]bool{"GenericWorkload": true}, Log: log, User: user,
		Args: []string{"--leader-elect=true"},
	})
}

// awaitOutput waits until a scheduler has said something.
func awaitOutput(ctx context.Context, s *schedulers.Scheduler, what string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for !strings.Contains(s.Tail(1000), what) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("a scheduler does not say %q: %w; its output:\n%s", what, ctx.Err(), s.Tail(20))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// said matches the lines of a scheduler's output that say how far it has come: the time of day and the words.
var said = regexp.MustCompile(
	`^I\d{4} (\d\d:\d\d:\d\d\.\d{6}) .*(The leader is gone|Successfully acquired lease|took over the state of entry ` +
		`\d+, and read \d+ entries more|The scheduler is \w+)`)

// stages returns a scheduler's messages since begun about taking over, each with the seconds since then.
func stages(output string, begun time.Time) (all []string, err error) {
	f, err := os.Open(output)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		match := said.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		at, err := time.ParseInLocation("2006-01-02 15:04:05.000000", begun.Format("2006-01-02 ")+match[1], time.Local)
		if err != nil {
			return nil, err
		}
		if since := at.Sub(begun); since > 0 {
			all = append(all, fmt.Sprintf("%.3f s %s", since.Seconds(), match[2]))
		}
	}
	return all, lines.Err()
}
