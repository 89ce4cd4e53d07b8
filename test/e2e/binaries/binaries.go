// Package binaries builds the programs that the tests run as processes, from the Go module cache, and keeps them in
// test/e2e/bin. A program is built again when go.mod, go.sum or the Go version changed. With ROLLCALL_E2E_BIN=DIR the
// programs of other projects are kept in DIR, which several checkouts may share. With ROLLCALL_E2E_ROLLCALL=FILE that
// program is tested instead of the checkout's own.
package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Names of the programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	KubeScheduler     = "kube-scheduler"
	// Helm is in the module in helm/, so that its requirements do not affect the others.
	Helm = "helm"
	// Rollcall is the product, of the checkout that this module lies in. Each process builds it when it first uses it.
	Rollcall = "rollcall"
	// Plugin is the product with a plugin of its own (test/e2e/plugin). It is built like Rollcall.
	Plugin = "rollcall-with-plugin"
)

// ErrNotDownloaded is returned for Helm when its modules are not in the module cache and cannot be downloaded.
var ErrNotDownloaded = errors.New("its modules cannot be downloaded")

// kubernetesVersion is the version that the programs of Kubernetes report.
const kubernetesVersion = "v1.37.2"

// once is the build of a program, of which each process makes one: its tests are all of the same program.
type once struct {
	sync.Once
	err error
}

// product and withPlugin are the builds of Rollcall and Plugin.
var product, withPlugin once

// packages are the places where the programs of other projects lie.
var packages = map[string]string{
	Etcd:              "go.etcd.io/etcd/server/v3",
	APIServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
	ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
	KubeScheduler:     "k8s.io/kubernetes/cmd/kube-scheduler",
	Helm:              "helm.sh/helm/v4/cmd/helm",
}

// modulePath is the name of this module in its go.mod.
const modulePath = "github.com/rollcall-sched/rollcall/test/e2e"

// Path returns where a program lies. It is built first if it is not there.
func Path(ctx context.Context, name string) (string, error) {
	module, err := ModuleDir()
	if err != nil {
		return "", err
	}
	bin := os.Getenv("ROLLCALL_E2E_BIN")
	if bin == "" || name == Rollcall || name == Plugin {
		bin = filepath.Join(module, "bin")
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for programs: %w", err)
	}
	unlock, err := lock(filepath.Join(bin, "."+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	file := filepath.Join(bin, name)
	if given := os.Getenv("ROLLCALL_E2E_ROLLCALL"); name == Rollcall && given != "" {
		return given, nil
	}
	if name == Rollcall {
		root := filepath.Join(module, "..", "..")
		product.Do(func() { product.err = build(ctx, root, file, "./cmd/rollcall", "-s") })
		return file, product.err
	}
	if name == Plugin {
		withPlugin.Do(func() { withPlugin.err = build(ctx, filepath.Join(module, "plugin"), file, ".", "-s") })
		return file, withPlugin.err
	}
	pkg, ok := packages[name]
	if !ok {
		return "", fmt.Errorf("no program is named %s", name)
	}
	if name == Helm {
		module = filepath.Join(module, "helm")
	}
	key, err := buildKey(module)
	if err != nil {
		return "", err
	}
	if was, err := os.ReadFile(file + ".key"); err == nil && string(was) == key && exists(file) {
		return file, nil
	}
	if name == Helm {
		if err := download(ctx, module); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(os.Stderr, "building %s; this takes minutes at the first time\n", name)
	if err := build(ctx, module, file, pkg, linkFlags()); err != nil {
		return "", err
	}
	return file, os.WriteFile(file+".key", []byte(key), 0o644)
}

// linkFlags strip the programs, and set the version of the ones of Kubernetes.
func linkFlags() string {
	const version = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=37",
		version, kubernetesVersion)
}

// download gets the modules of the module in dir. A module that has other contents than go.sum says is no matter of the
// network, hence not ErrNotDownloaded.
func download(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if bytes.Contains(out, []byte("SECURITY ERROR")) {
		return fmt.Errorf("download the modules of %s: %w\n%s", dir, err, out)
	}
	return fmt.Errorf("%w: go mod download in %s: %w\n%s", ErrNotDownloaded, dir, err, out)
}

// build runs go build in dir, with the flags of the Makefile: others would compile Kubernetes again. The file is
// replaced in one step: a program that runs keeps its old one.
func build(ctx context.Context, dir, file, pkg, linkFlags string) error {
	next := file + ".next"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags", linkFlags, "-o", next,
		pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, out)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("put %s in place: %w", file, err)
	}
	return nil
}

// ModuleDir returns the folder of this module: the working directory, one above it, or e2e in one of these.
func ModuleDir() (string, error) {
	from, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module %s: %w", modulePath, err)
	}
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, d := range []string{dir, filepath.Join(dir, "e2e")} {
			text, err := os.ReadFile(filepath.Join(d, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
				return d, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder above %s has the module %s: run this in a checkout of Rollcall",
				from, modulePath)
		}
	}
}

// buildKey identifies the inputs of the build.
func buildKey(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), linkFlags())
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("find out whether the programs are up to date: %w", err)
		}
		h.Write(text)
	}
	return fmt.Sprintf("%x\n", h.Sum(nil)), nil
}

// lock takes a lock among processes, so that tests of several packages build a program once.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the build of a program: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
