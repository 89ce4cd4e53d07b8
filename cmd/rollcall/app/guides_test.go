package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A guide is a Markdown file whose commands can be followed from top to bottom in an empty directory:
//
//   - a yaml block is written to the file that a line before it, or behind it, names: Save this as `FILE`;
//   - the lines of an sh block are commands, each of which ends with 0, or with N behind "# exit code N";
//   - each line of a text block is the beginning or another part of a line that the last sh block printed, in order.

var (
	guideFile = regexp.MustCompile("Save (?:this|the workload) as `([^`]+)`")
	guideCode = regexp.MustCompile(`# exit code (\d+)$`)
)

// TestTheGuidesCommandsWork follows each guide.
func TestTheGuidesCommandsWork(t *testing.T) {
	guides, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "guides", "*.md"))
	must(t, err)
	if len(guides) < 4 {
		t.Fatalf("%d guides found, want 4 or more", len(guides))
	}
	for _, guide := range guides {
		t.Run(strings.TrimSuffix(filepath.Base(guide), ".md"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(guide)
			must(t, err)
			f := follower{t: t, dir: t.TempDir()}
			f.follow(string(text))
			if f.ran < 3 {
				t.Errorf("%d commands were run, want 3 or more", f.ran)
			}
		})
	}
}

// follower follows one guide.
type follower struct {
	t       *testing.T
	dir     string
	ran     int
	file    string // the name that was given last to a file that is to be saved
	unnamed string // a yaml block without a name yet
	printed []string
}

// follow goes through the text, block by block.
func (f *follower) follow(text string) {
	for i, part := range strings.Split(text, "\n```") {
		if i%2 == 0 {
			_, prose, _ := strings.Cut(part, "\n")
			if i == 0 {
				prose = part
			}
			f.read(prose)
			continue
		}
		kind, block, _ := strings.Cut(part, "\n")
		switch kind {
		case "yaml":
			f.unnamed = block + "\n"
			f.save()
		case "sh":
			f.run(block)
		case "text":
			f.compare(block)
		default:
			f.t.Errorf("a block of kind %q, want yaml, sh or text", kind)
		}
	}
	if f.unnamed != "" || f.file != "" {
		f.t.Errorf("a file without a name, or a name without a file: %q %q", f.file, f.unnamed)
	}
}

// read looks for the name of a file in the prose between two blocks.
func (f *follower) read(prose string) {
	if m := guideFile.FindStringSubmatch(prose); m != nil {
		f.file = m[1]
		f.save()
	}
}

// save writes a file once both its name and its content are known.
func (f *follower) save() {
	if f.file == "" || f.unnamed == "" {
		return
	}
	must(f.t, os.WriteFile(filepath.Join(f.dir, f.file), []byte(f.unnamed), 0o600))
	f.file, f.unnamed = "", ""
}

func (f *follower) run(block string) {
	f.printed = nil
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		sh := exec.Command("sh", "-c", line)
		sh.Dir = f.dir
		out, err := sh.CombinedOutput()
		code := "0"
		if m := guideCode.FindStringSubmatch(line); m != nil {
			code = m[1]
		}
		if err != nil && sh.ProcessState == nil {
			f.t.Fatalf("%s: %v", line, err)
		}
		if got := sh.ProcessState.ExitCode(); code != strings.TrimSpace(string(rune('0'+got))) {
			f.t.Errorf("%s: exit code %d, want %s\n%s", line, got, code, out)
		}
		f.printed = append(f.printed, strings.Split(string(out), "\n")...)
		f.ran++
	}
}

func (f *follower) compare(block string) {
	at := 0
	for want := range strings.Lines(block) {
		want = strings.TrimSuffix(want, "\n")
		for at < len(f.printed) && !strings.Contains(f.printed[at], want) {
			at++
		}
		if at == len(f.printed) {
			f.t.Errorf("not printed, or not in this order: %q\n%s", want, strings.Join(f.printed, "\n"))
			return
		}
	}
}
