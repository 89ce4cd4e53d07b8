package svgplot

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/internal/svgplot/svgtest"
)

// browser returns the command of a browser, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium or google-chrome is installed: pictures are not looked at as a browser shows them")
	return ""
}

// run runs the browser, and returns its output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	fixed := []string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir=" + t.TempDir()}
	cmd := exec.CommandContext(ctx, browser(t), append(fixed, args...)...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Skipf("the browser does not run here: %v", err)
	}
	return out.String()
}

// measure is a page's script. It finds the texts that leave their picture or meet another one, as the browser shows
// them.
const measure = `
let found = [], texts = 0
for (const svg of document.querySelectorAll("svg")) {
	const name = svg.parentElement.id, picture = svg.getBoundingClientRect(), boxes = []
	for (const text of svg.querySelectorAll("text")) {
		const b = text.getBoundingClientRect()
		if (b.width == 0) continue
		texts++
		if (b.left < picture.left || b.right > picture.right || b.top < picture.top || b.bottom > picture.bottom)
			found.push(name + ": leaves the picture: " + text.textContent)
		for (const [other, a] of boxes)
			if (a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom)
				found.push(name + ": " + text.textContent + " is over " + other)
		boxes.push([text.textContent, b])
	}
}
document.body.innerHTML = "<pre id=found>" + texts + " texts\n" + found.join("\n").replaceAll("<", "&lt;") + "\n</pre>"
`

// TestABrowserShowsTheTextsInTheirPlaces measures the texts of the pictures in a browser.
func TestABrowserShowsTheTextsInTheirPlaces(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!DOCTYPE html><meta charset=utf-8><body>")
	figures := nasty()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		text := figure(t, figures[name])
		fmt.Fprintf(&page, "<div id=\"%s\">%s</div>", html.EscapeString(name), text)
	}
	fmt.Fprintf(&page, "<div id=dots>%s</div>",
		drawn(t, func(w io.Writer) error { return WriteDots(w, nastyDots()) }))
	fmt.Fprintf(&page, "<div id=curves>%s</div>",
		drawn(t, func(w io.Writer) error { return WriteCurves(w, nastyCurves()) }))
	page.WriteString("<script>" + measure + "</script>")
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	out := run(t, "--dump-dom", "file://"+path)
	_, found, ok := strings.Cut(out, "<pre id=\"found\">")
	found, _, _ = strings.Cut(found, "</pre>")
	var texts int
	if _, err := fmt.Sscanf(found, "%d texts", &texts); !ok || err != nil || texts < 100 {
		t.Fatalf("the browser measured %d texts: %s", texts, out)
	}
	if lines := strings.Split(strings.TrimSpace(found), "\n"); len(lines) > 1 {
		t.Error(strings.Join(lines[1:], "\n"))
	}
}

// TestTheEdgeOfAPictureIsEmpty looks at the pixels of a picture: nothing is drawn at its edge, and something inside.
func TestTheEdgeOfAPictureIsEmpty(t *testing.T) {
	text := figure(t, nasty()["40 long groups"])
	_, height := svgtest.Check(t, text, TextWidth)
	dir := t.TempDir()
	source, picture := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.png")
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, "--screenshot="+picture, fmt.Sprintf("--window-size=%g,%g", width, height), "file://"+source)
	file, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shown, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	size := shown.Bounds()
	ground, inside := shown.At(0, 0), 0
	for y := range size.Dy() {
		for x := range size.Dx() {
			if shown.At(x, y) == ground {
				continue
			}
			if x == 0 || y == 0 || x == size.Dx()-1 || y == size.Dy()-1 {
				t.Fatalf("something is drawn at the edge, at %d, %d", x, y)
			}
			inside++
		}
	}
	if inside < 10_000 {
		t.Errorf("%d pixels are drawn", inside)
	}
}
