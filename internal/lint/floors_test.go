package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// parseModule writes the files of a txtar archive as a module named m and parses it.
func parseModule(t *testing.T, archive string) *tree {
	t.Helper()
	root := t.TempDir()
	files := append(txtar.Parse([]byte(archive)).Files, txtar.File{Name: "go.mod", Data: []byte("module m\n")})
	for _, f := range files {
		name := filepath.Join(root, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	module, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// places are the findings as "file:line: rule", sorted.
func places(found []finding) []string {
	var out []string
	for _, f := range sorted(found) {
		out = append(out, fmt.Sprintf("%s:%d: %s", f.file, f.line, f.rule))
	}
	return out
}

func TestRulesOfSyntax(t *testing.T) {
	for _, tc := range []struct {
		name    string
		check   func(*tree) []finding
		archive string
		want    []string
	}{{
		name:  "imports go down",
		check: checkFloors,
		archive: `
-- scheduler/a.go --
package scheduler
import (
	_ "fmt"
	_ "m/eventlog"
	_ "m/plugins"
	_ "m/plugins/coscheduling"
)
-- eventlog/a.go --
package eventlog
import _ "m/apis/scheduling/v1alpha1"
-- eventlog/logtest/a.go --
package logtest
import _ "m/eventlog"
-- plugins/registry.go --
package plugins
import _ "m/plugins/coscheduling"
-- cmd/rollcall/main.go --
package main
import (
	_ "m/engine"
	_ "m/sim"
)
`,
	}, {
		name:  "an import that goes up is refused, also behind a build constraint",
		check: checkFloors,
		archive: `
-- eventlog/a.go --
package eventlog
import _ "m/cluster"
-- sim/a.go --
//go:build never
package sim
import named "m/cmd/rollcall"
-- engine/a.go --
package engine
import _ "m/test/peer"
-- apis/x/a.go --
package x
import _ "m/queue"
`,
		want: []string{"apis/x/a.go:2: floor", "engine/a.go:2: floor", "eventlog/a.go:2: floor", "sim/a.go:3: floor"},
	}, {
		name:  "an import on the same floor is refused unless it is listed",
		check: checkFloors,
		archive: `
-- queue/a.go --
package queue
import _ "m/cluster"
-- plugins/coscheduling/a.go --
package coscheduling
import _ "m/plugins/other"
-- plugins/other/a.go --
package other
import _ "m/plugins"
-- apis/x/a.go --
package x
import _ "m/eventlog"
-- kube/client/a.go --
package client
import _ "m/kube/lease"
`,
		want: []string{
			"apis/x/a.go:2: same-floor", "kube/client/a.go:2: same-floor", "plugins/coscheduling/a.go:2: same-floor",
			"plugins/other/a.go:2: same-floor", "queue/a.go:2: same-floor",
		},
	}, {
		name:  "test support is for test files, and test files are free",
		check: checkFloors,
		archive: `
-- cmd/rollcall/a.go --
package main
import _ "m/eventlog/logtest"
-- eventlog/boltlog/a_test.go --
package boltlog
import (
	_ "m/eventlog/logtest"
	_ "m/sim"
)
-- test/transcripts/a.go --
package transcripts
import _ "m/internal/restorecheck"
`,
		want: []string{"cmd/rollcall/a.go:2: floor"},
	}, {
		name:  "a backend of logs is for the package that opens them, and for tests",
		check: checkFloors,
		archive: `
-- logs/a.go --
package logs
import _ "m/eventlog/boltlog"
-- logs/verify/a.go --
package verify
import _ "m/eventlog/boltlog"
-- engine/live/a.go --
package bundle
import _ "m/eventlog/boltlog"
-- engine/live/a_test.go --
package bundle
import _ "m/eventlog/boltlog"
-- internal/localapi/a.go --
package localapi
import _ "m/eventlog/boltlog"
`,
		want: []string{"engine/live/a.go:2: backend", "internal/localapi/a.go:2: backend"},
	}, {
		name:  "the loop imports neither what talks to a cluster nor the state machine, outside of tests",
		check: checkFloors,
		archive: `
-- engine/live/a.go --
package live
import (
	_ "m/engine"
	_ "m/kube/client"
	_ "m/kube/effect"
	_ "m/scheduler"
)
-- engine/live/a_test.go --
package live
import _ "m/scheduler"
`,
		want: []string{"engine/live/a.go:4: apart", "engine/live/a.go:5: apart", "engine/live/a.go:6: apart"},
	}, {
		name:  "a package without a floor is refused, wherever it is seen first",
		check: checkFloors,
		archive: `
-- surprise/a_test.go --
package surprise
-- apis/a.go --
package apis
-- engine/a.go --
package engine
import _ "m/elsewhere"
-- testdata/a.go --
package skipped
-- _old/a.go --
package skipped
-- test/e2e/go.mod --
module m/e2e
-- test/e2e/a.go --
package skipped
`,
		want: []string{"apis/a.go:1: unknown-package", "engine/a.go:2: unknown-package",
			"surprise/a_test.go:1: unknown-package"},
	}, {
		name:  "the bans hold on floors 0 to 5, outside of tests",
		check: checkBans,
		archive: `
-- eventlog/a.go --
package eventlog
func f() { go f() }
-- snapshot/a.go --
package snapshot
import "time"
var _ = time.Now
-- plugins/coscheduling/a.go --
package coscheduling
import "k8s.io/apimachinery/pkg/apis/meta/v1"
var _ = v1.Now
-- queue/a_test.go --
package queue
import _ "math/rand"
-- eventlog/logtest/a.go --
package logtest
func f() { go f() }
-- engine/a.go --
package engine
import _ "math/rand/v2"
`,
		want: []string{"eventlog/a.go:2: goroutine", "plugins/coscheduling/a.go:3: clock", "snapshot/a.go:3: clock"},
	}, {
		name:  "a package's name says what it does",
		check: checkNames,
		archive: `
-- queue/util/a.go --
package queueutil
-- common/a.go --
package common
-- helpers/a_test.go --
package helpers_test
-- cluster/a.go --
package cluster
`,
		want: []string{"common/a.go:1: package-name", "helpers/a_test.go:1: package-name",
			"queue/util/a.go:1: package-name"},
	}, {
		name:  "every package has one package comment, in doc.go if there is one",
		check: checkPackageComments,
		archive: `
-- good/a.go --
// Package good is good.
package good
-- good/b.go --
package good
-- testsonly/a_test.go --
package testsonly
-- cmd/main.go --
// Rollcall is a command.
package main
-- none/a.go --
package none
-- nonebutdoc/a.go --
package nonebutdoc
-- nonebutdoc/doc.go --
package nonebutdoc
-- intest/a.go --
package intest
-- intest/a_test.go --
// Package intest has its comment where no reader looks.
package intest
-- directive/a.go --
//go:build linux

package directive
-- two/a.go --
// Package two is this.
package two
-- two/b.go --
// Package two is that.
package two
-- astray/a.go --
// Package astray has its comment outside of doc.go.
package astray
-- astray/doc.go --
package astray
-- badly/a.go --
// This package begins badly.
package badly
`,
		want: []string{
			"astray/a.go:2: package-comment", "badly/a.go:2: package-comment", "directive/a.go:3: package-comment",
			"intest/a.go:1: package-comment", "none/a.go:1: package-comment", "nonebutdoc/doc.go:1: package-comment",
			"two/b.go:2: package-comment",
		},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			found := tc.check(parseModule(t, tc.archive))
			if got := places(found); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q\n%v", got, tc.want, found)
			}
		})
	}
}

func TestAnExceptionExcusesOneRuleInOneFile(t *testing.T) {
	module := parseModule(t, `
-- framework/parallel.go --
package framework
func f() { go f(); select {} }
-- framework/quiet.go --
package framework
-- framework/cycle.go --
package framework
func g() { go g() }
`)
	list := []exception{
		{"framework/parallel.go", "goroutine", "reduced in node order"},
		{"framework/quiet.go", "goroutine", "no longer needed"},
		{"framework/cycle.go", "goroutine", ""},
		{"framework/later.go", "goroutine", "there is no such file"},
	}
	got := places(except(list, checkBans(module)))
	want := []string{
		"framework/cycle.go:1: exception", "framework/cycle.go:2: goroutine",
		"framework/later.go:1: exception", "framework/parallel.go:2: select", "framework/quiet.go:1: exception",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAFileThatDoesNotParseIsReportedAndTheOthersAreChecked(t *testing.T) {
	module := parseModule(t, `
-- queue/a.go --
package queue
func {
-- queue/b.go --
package queue
func f() { go f() }
`)
	got := places(append(module.unparsed, checkBans(module)...))
	if want := []string{"queue/a.go:2: parse", "queue/b.go:2: goroutine"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
