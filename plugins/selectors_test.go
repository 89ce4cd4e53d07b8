package plugins

import (
	"strings"
	"testing"
)

func TestSelectorsWhoseAnswerDependsOnTheOrderOfAMapAreRefused(t *testing.T) {
	const list = "builds a list from a map"
	for _, c := range []struct {
		expression, refused string
		goes                bool
	}{
		{expression: `device.driver == "d"`},
		{expression: `device.attributes["d"].model == "a"`},
		{expression: `device.attributes["d"].exists(k, k == "model")`, goes: true},
		{expression: `device.attributes.all(k, k != "x" || device.attributes[k].size() > 1)`, goes: true},
		{expression: `device.attributes["d"].exists_one(k, k.startsWith("m"))`, goes: true},
		{expression: `device.attributes["d"].filter(k, k.startsWith("m")).size() == 2`, goes: true},
		{expression: `size(device.attributes["d"].map(k, k)) == 2`, goes: true},
		{expression: `"m" in device.attributes["d"].map(k, k)`, goes: true},
		{expression: `device.attributes["d"].map(k, k).exists(k, k == "m")`, goes: true},
		{expression: `device.attributes["d"].map(k, k).filter(k, k > "m").size() == 1`, goes: true},
		{expression: `device.attributes["d"].map(k, k)[0] == "m"`, refused: list},
		{expression: `device.attributes["d"].filter(k, k > "a") == ["b"]`, refused: list},
		{expression: `device.attributes["d"].map(k, k).map(k, k + "x")[0] == "mx"`, refused: list},
		{expression: `device.attributes["d"].map(k, k) in [["a", "b"]]`, refused: list},
		{expression: `device.capacity.map(k, k)[0] == "m"`, refused: list},
		{expression: `cel.bind(names, device.attributes["d"].map(k, k), names[0] == "m")`, refused: list},
		{expression: `dyn(device.attributes["d"]).map(k, k)[0] == "m"`, refused: list},
		{expression: `(device.driver == "d" ? device.attributes["d"] : device.attributes["d"].x).map(k, k)[0] == "m"`,
			refused: list},
		{expression: `device.attributes[?"d"].orValue(device.attributes["d"].x).map(k, k)[0] == "m"`, refused: list},
		{expression: `(device.driver == "d" ? device.attributes["d"].y : device.attributes["d"].x).map(k, k)[0] == "m"`},
		{expression: `device.attributes["d"].transformList(k, v, k)[0] == "m"`, refused: list},
		{expression: `["x"].exists(x, device.attributes[x].map(k, k)[0] == x)`, refused: list},
		{expression: `["x", "y"].map(x, x + "z")[0] == "xz"`},
		{expression: `device.attributes["d"].names.map(x, x)[0] == "m"`},
		{expression: `device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, ` +
			`device.attributes.all(d, device.attributes.all(e, a + b + c + d + e != "x")))))`, refused: "goes through a map and"},
	} {
		got := examine(c.expression)
		if !strings.HasPrefix(got.why, c.refused) || (got.why == "") != (c.refused == "") {
			t.Errorf("%s: refused because it %q, want %q", c.expression, got.why, c.refused)
		}
		if (got.cost > 0) != c.goes {
			t.Errorf("%s: it goes through maps for %d units at most, want some: %v", c.expression, got.cost, c.goes)
		}
	}
}

func TestWhatIsKnownOfSelectorsIsBounded(t *testing.T) {
	s := &selectors{}
	for i := range mostSelectors + 2 {
		s.of(strings.Repeat(" ", i)) // it does not compile
	}
	if len(s.known) != 2 {
		t.Errorf("%d expressions are remembered", len(s.known))
	}
}
