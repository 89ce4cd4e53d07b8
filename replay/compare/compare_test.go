package compare

import (
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestSettingsThatDifferAreNamed(t *testing.T) {
	for _, test := range []struct {
		name, a, b string
		want       []Setting
	}{
		{"equal, in another order", `{"x":1,"y":[{"name":"n","v":1},{"name":"m"}]}`,
			`{"y":[{"name":"m"},{"name":"n","v":1}],"x":1}`, nil},
		{"a value", `{"x":{"y":1}}`, `{"x":{"y":2}}`, []Setting{{1, "x.y", "1", "2"}}},
		{"only in one", `{"x":{}}`, `{"x":{"y":true}}`, []Setting{{1, "x.y", "", "true"}}},
		{"an element by its name", `{"p":[{"name":"n","v":1}]}`, `{"p":[{"name":"n","v":2}]}`,
			[]Setting{{1, "p[n].v", "1", "2"}}},
		{"an element by its index", `{"p":[1,2]}`, `{"p":[1,3]}`, []Setting{{1, "p[1]", "2", "3"}}},
		{"two elements of one name", `{"p":[{"name":"n"},{"name":"n"}]}`, `{"p":[{"name":"n"}]}`,
			[]Setting{{1, "p", `[{"name":"n"},{"name":"n"}]`, `[{"name":"n"}]`}}},
		{"another type", `{"p":[1]}`, `{"p":{"a":1}}`, []Setting{{1, "p[0]", "1", ""}, {1, "p.a", "", "1"}}},
		{"a field without a name", `{"x":{"":1}}`, `{"x":{"":2}}`, []Setting{{1, "x.", "1", "2"}}},
		{"a large number", `{"x":9007199254740993}`, `{"x":9007199254740992}`,
			[]Setting{{1, "x", "9007199254740993", "9007199254740992"}}},
		{"no configuration", ``, `{"x":1}`, []Setting{{1, "x", "", "1"}}},
	} {
		c := &comparison{a: withConfig(test.a), b: withConfig(test.b)}
		got, err := c.settings()
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	c := &comparison{a: withConfig(`{"x":`), b: withConfig(`{}`)}
	if _, err := c.settings(); err == nil {
		t.Error("a configuration that is no JSON is no error")
	}
}

func withConfig(text string) *side {
	s := newSide(Log{Name: "log"})
	s.epochs = append(s.epochs, &eventlog.EpochStarted{Config: []byte(text)})
	return s
}

func TestTheFirstDifferenceIsFoundAsSoonAsBothSidesAreKnown(t *testing.T) {
	one := []input{{what: "nodes a comes"}}
	for _, test := range []struct {
		name         string
		a, b         []input
		overA, overB bool
		found        bool
		left         int // inputs that are not compared yet
	}{
		{"nothing yet", nil, nil, false, false, false, 0},
		{"one side is behind", one, nil, false, false, false, 1},
		{"one side has ended", nil, one, true, false, true, 0},
		{"the other side has ended", one, nil, false, true, true, 0},
		{"the same", one, one, false, false, false, 0},
		{"another", one, []input{{what: "nodes b comes"}}, false, false, true, 0},
	} {
		c := &comparison{a: newSide(Log{}), b: newSide(Log{})}
		c.a.inputs, c.b.inputs, c.a.over, c.b.over = test.a, test.b, test.overA, test.overB
		if err := c.match(); err != nil {
			t.Fatal(err)
		}
		left := len(c.a.inputs) + len(c.b.inputs)
		if found := c.input != nil; found != test.found || left != test.left {
			t.Errorf("%s: found %v, %d left, want %v, %d", test.name, found, left, test.found, test.left)
		}
	}
}
