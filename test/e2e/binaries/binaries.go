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
	// OlderAPIServer is of the oldest release that the recorder supports. It is in the module in older/, because a
	// module has one version of Kubernetes.
	OlderAPIServer = "kube-apiserver-1.31"
	// Helm is in the module in helm/, so that its requirements do not affect the others.
	Helm = "helm"
	// Rollcall is the product, of the checkout that this module lies in. Each process builds it when it first uses it.
	Rollcall = "rollcall"
	// Plugin is the product with a plugin of its own (test/e2e/plugin). It is built like Rollcall.
	Plugin = "rollcall-with-plugin"
)

// ErrNotDownloaded is returned for a program of a module of its own when the modules that it requires are not in the
// module cache and cannot be downloaded.
var ErrNotDownloaded = errors.New("its modules cannot be downloaded")

// kubernetesVersion is the version that the programs of Kubernetes report, and olderVersion the one of OlderAPIServer.
const (
	kubernetesVersion = "v1.37.2"
	olderVersion      = "v1.31.14"
)

// once is the build of a program, of which each process makes one: its tests are all of the same program.
type once struct {
	sync.Once
	err error
}

// product and withPlugin are the builds of Rollcall and Plugin.
var product, withPlugin once

// A program is the place of a program of another project.
type program struct {
	pkg string
	// module is the folder of its module, below this one; empty: this module.
	module string
	// version is the version of Kubernetes that it reports.
	version string
}

var programs = map[string]program{
	Etcd:              {"go.etcd.io/etcd/server/v3", "", kubernetesVersion},
	APIServer:         {"k8s.io/kubernetes/cmd/kube-apiserver", "", kubernetesVersion},
	ControllerManager: {"k8s.io/kubernetes/cmd/kube-controller-manager", "", kubernetesVersion},
	KubeScheduler:     {"k8s.io/kubernetes/cmd/kube-scheduler", "", kubernetesVersion},
	OlderAPIServer:    {"k8s.io/kubernetes/cmd/kube-apiserver", "older", olderVersion},
	Helm:              {"helm.sh/helm/v4/cmd/helm", "helm", kubernetesVersion},
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
	p, ok := programs[name]
	if !ok {
		return "", fmt.Errorf("no program is named %s", name)
	}
	return file, p.once(ctx, filepath.Join(module, p.module), file)
}

// once builds the program of the module in dir if the file is not what the build would make.
func (p program) once(ctx context.Context, dir, file string) error {
	key, err := p.buildKey(dir)
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(file + ".key"); err == nil && string(was) == key && exists(file) {
		return nil
	}
	if p.module != "" {
		if err := download(ctx, dir); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "building %s; this takes minutes at the first time\n", filepath.Base(file))
	if err := build(ctx, dir, file, p.pkg, p.linkFlags()); err != nil {
		return err
	}
	return os.WriteFile(file+".key", []byte(key), 0o644)
}

// linkFlags strip the program, and set the version of one of Kubernetes.
func (p program) linkFlags() string {
	const version = "k8s.io/component-base/version"
	minor, _, _ := strings.Cut(strings.TrimPrefix(p.version, "v1."), ".")
	return fmt.Sprintf("-s -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s",
		version, p.version, minor)
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
func (p program) buildKey(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), p.linkFlags())
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
