package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// gangOfGrowth is the number of members of a gang of the scenario growth; runs is the time for which its pods run.
const (
	gangOfGrowth = 5
	runs         = time.Minute
)

// growth has gangs come one after the other, run for a minute and be deleted, while the nodes' heartbeats continue,
// and measures how much of the disk the scheduler's log takes meanwhile.
func (b *bench) growth(ctx context.Context, choice string) (r result, err error) {
	s, err := b.warm(ctx, choice)
	if err != nil {
		return r, err
	}
	defer s.Kill()
	if s.Log == "" {
		return r, fmt.Errorf("%s keeps no log", choice)
	}
	before, err := b.cost(ctx, s)
	if err != nil {
		return r, err
	}
	taken, err := onDisk(s.Log)
	if err != nil {
		return r, err
	}
	begun := time.Now()
	if r.Pods, err = b.comeAndGo(ctx, s, begun.Add(b.span)); err != nil {
		return r, err
	}
	after, err := b.cost(ctx, s)
	if err != nil {
		return r, err
	}
	now, err := onDisk(s.Log)
	if err != nil {
		return r, err
	}
	r.since(before, after)
	r.Seconds = time.Since(begun).Seconds()
	r.LogBytes = now - taken
	return r, nil
}

// comeAndGo creates gangs at the rate that was asked for until the time is over, and deletes each when its pods have
// run. It returns how many pods came.
func (b *bench) comeAndGo(ctx context.Context, s *schedulers.Scheduler, until time.Time) (pods int, err error) {
	type gang struct {
		pods []string
		ends time.Time
	}
	var running []gang
	every := time.NewTicker(gangOfGrowth * time.Minute / time.Duration(b.perMinute))
	defer every.Stop()
	for time.Now().Before(until) {
		w := b.watch(ctx)
		names, err := b.create(ctx, gangOfGrowth, gangOfGrowth)
		if err == nil {
			err = w.wait(ctx, len(names))
		}
		w.stop()
		if err != nil {
			return pods, fmt.Errorf("%w; the scheduler's output:\n%s", err, s.Tail(20))
		}
		pods += len(names)
		running = append(running, gang{names, time.Now().Add(runs)})
		for len(running) > 0 && time.Now().After(running[0].ends) {
			if err := b.remove(ctx, running[0].pods); err != nil {
				return pods, err
			}
			running = running[1:]
		}
		select {
		case <-ctx.Done():
			return pods, ctx.Err()
		case <-every.C:
		}
	}
	return pods, nil
}

// remove has the pods of a gang succeed, and deletes them and their PodGroup.
func (b *bench) remove(ctx context.Context, pods []string) error {
	now := int64(0)
	for _, name := range pods {
		p, err := b.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("end pod %s: %w", name, err)
		}
		p.Status.Phase = v1.PodSucceeded
		if _, err := b.client.CoreV1().Pods("default").UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("end pod %s: %w", name, err)
		}
	}
	o := metav1.DeleteOptions{GracePeriodSeconds: &now}
	for _, name := range pods {
		if err := b.client.CoreV1().Pods("default").Delete(ctx, name, o); err != nil {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	group := pods[0][:len(pods[0])-len("-0")]
	if err := b.client.SchedulingV1beta1().PodGroups("default").Delete(ctx, group, o); err != nil {
		return fmt.Errorf("delete PodGroup %s: %w", group, err)
	}
	return nil
}

// onDisk is the disk usage of the files below dir, in bytes. A log's file is longer than its content.
func onDisk(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = os.Lstat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
			bytes += stat.Blocks * 512
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure the log: %w", err)
	}
	return bytes, nil
}
