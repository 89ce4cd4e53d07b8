package accountant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
)

// world is two nodes of two processors, a gang of two and a pod of no gang, which a test has a history of.
func world() *history {
	h := newHistory()
	h.node("n1", "2")
	h.node("n2", "2")
	h.group("g", 2)
	h.pod("a", "g")
	h.pod("b", "g")
	h.pod("single", "")
	return h
}

// TestTheAccountantFindsWhatWasPlanted plants each kind of violation, and similar cases that are none. found is a part
// of the expected message; empty if there is none.
func TestTheAccountantFindsWhatWasPlanted(t *testing.T) {
	for _, c := range []struct {
		name, found string
		plant       func(h *history)
	}{
		{"a gang is bound whole", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n2", 201)
			h.look()
		}},
		{"a gang is bound in part", "gang d/g at 03:04:05.080000: 1 bound of a minimum of 2; not bound: d/b",
			func(h *history) {
				h.bind("s", "a", "n1", 201)
				h.look()
			}},
		{"a gang is bound in part between quiescent points only", "", func(h *history) {
			h.look()
			h.bind("s", "a", "n1", 201)
			h.wait(time.Hour)
			h.bind("s", "b", "n1", 201)
			h.look()
		}},
		{"a gang is bound in part by a bind that was answered with an error", "gang d/g", func(h *history) {
			h.bind("s", "a", "n1", 500)
			h.stands("a", "n1")
			h.look()
		}},
		{"a bind of a member was refused, and the gang is bound in part", "gang d/g", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 409)
			h.look()
		}},
		{"a member of a gang that was whole has ended", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n2", 201)
			h.finish("a")
			h.look()
		}},
		{"a member of a gang that was whole was deleted", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n2", 201)
			h.remove("a", false)
			h.look()
		}},
		{"a gang made again is bound in part", "gang d/g", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n2", 201)
			h.remove("a", false)
			h.remove("b", false)
			h.pod("a2", "g")
			h.pod("b2", "g")
			h.bind("s", "a2", "n1", 201)
			h.look()
		}},
		{"a member was deleted while the gang was being bound", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.remove("b", false)
			h.look()
		}},
		{"a group without a minimum of its own is bound in part", "", func(h *history) {
			h.pod("x", "nobody-made-it")
			h.pod("y", "nobody-made-it")
			h.bind("s", "x", "n1", 201)
			h.look()
		}},
		{"a node is filled", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
		}},
		{"a node is overfilled",
			"node n1 at 03:04:05.091000, with pod d/single: cpu 3000 of 2000, by d/a, d/b, d/single",
			func(h *history) {
				h.bind("s", "a", "n1", 201)
				h.bind("s", "b", "n1", 201)
				h.bind("s", "single", "n1", 201)
			}},
		{"a node is overfilled by a bind that was answered with an error", "cpu 3000 of 2000", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "single", "n1", 504)
			h.stands("single", "n1")
			h.bind("s", "b", "n1", 201)
			h.look()
		}},
		{"a node is overfilled on top of another scheduler's pod", "cpu 3000 of 2000", func(h *history) {
			h.bind("other", "single", "n1", 201)
			h.wait(time.Minute)
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
		}},
		{"another scheduler fills the node at the same moment", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("other", "single", "n1", 201)
			h.bind("s", "b", "n1", 201)
		}},
		{"another scheduler overfills a node", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
			h.wait(time.Minute)
			h.bind("other", "single", "n1", 201)
		}},
		{"a pod that has ended makes room", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
			h.finish("a")
			h.bind("s", "single", "n1", 201)
		}},
		{"a pod that was deleted makes room", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
			h.remove("a", false)
			h.bind("s", "single", "n1", 201)
		}},
		{"a pod that is being deleted makes no room", "cpu 3000 of 2000", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
			h.remove("a", true)
			h.bind("s", "single", "n1", 201)
		}},
		{"a node that shrank long ago is overfilled", "cpu 2000 of 1000", func(h *history) {
			h.node("n1", "1")
			h.wait(time.Minute)
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
		}},
		{"a node that shrinks at that moment is overfilled", "", func(h *history) {
			h.node("n1", "1")
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n1", 201)
		}},
		{"a node that nothing shows", "pod d/a was bound to node n9, which nothing shows", func(h *history) {
			h.bind("s", "a", "n9", 201)
		}},
		{"a node that was deleted", "cpu 1000 of 0, by d/a", func(h *history) {
			h.removeNode("n1")
			h.wait(time.Minute)
			h.bind("s", "a", "n1", 201)
		}},
		{"a node that is deleted at that moment", "", func(h *history) {
			h.removeNode("n1")
			h.bind("s", "a", "n1", 201)
		}},
		{"a node that came back still has its pods", "cpu 3000 of 2000", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.removeNode("n1")
			h.wait(time.Minute)
			h.node("n1", "2")
			h.bind("s", "b", "n1", 201)
			h.bind("s", "single", "n1", 201)
		}},
		{"a node that came back is filled", "", func(h *history) {
			h.bind("s", "a", "n1", 201)
			h.removeNode("n1")
			h.wait(time.Minute)
			h.node("n1", "2")
			h.bind("s", "b", "n1", 201)
		}},
		{"a pod is bound twice", "pod d/single was bound 2 times", func(h *history) {
			h.bind("s", "single", "n1", 201)
			h.bind("s", "single", "n1", 201)
		}},
		{"a bound pod was to go to another node", "pod d/single: s bound it to node n1", func(h *history) {
			h.bind("s", "single", "n1", 201)
			h.bind("s", "single", "n2", 409)
		}},
		{"a bind with an unknown outcome is asked for again", "", func(h *history) {
			h.bind("s", "single", "n1", 0)
			h.stands("single", "n1")
			h.bind("s", "single", "n1", 409)
			h.look()
		}},
		{"a pod stands where nobody bound it", "pod d/single was bound to node n1, and stands on node n2",
			func(h *history) {
				h.bind("s", "single", "n1", 201)
				h.stands("single", "n2")
				h.look()
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := world()
			c.plant(h)
			text := strings.Join(h.account(t).Check(accountant.Options{Schedulers: []string{"s"}}), "\n")
			if c.found == "" && text != "" || !strings.Contains(text, c.found) {
				t.Errorf("found:\n%s\nwanted: %s", text, c.found)
			}
		})
	}
}

// TestBindsWithoutADecisionAreFound compares binds with logs.
func TestBindsWithoutADecisionAreFound(t *testing.T) {
	decision := func(at, uid, outcome, node, allowed string) string {
		return fmt.Sprintf(`{"seq":7,"time":"2026-01-02T03:04:%sZ","kind":"Decision","decision":`+
			`{"uid":%q,"outcome":%q,"node":%q,"allowed":[%s]}}`, at, uid, outcome, node, allowed)
	}
	result := func(uid, node, outcome string) string {
		return fmt.Sprintf(`{"seq":9,"time":"2026-01-02T03:05:00Z","kind":"BindResult",`+
			`"decision":7,"uid":%q,"node":%q,"outcome":%q}`, uid, node, outcome)
	}
	whole := []string{
		decision("05.0", "a", "Waiting", "n1", ""), decision("05.001", "b", "Scheduled", "n2", `"a"`),
		result("a", "n1", "Bound"), result("b", "n2", "Bound"),
	}
	for _, c := range []struct {
		name, found string
		log         []string
	}{
		{"each bind has a decision", "", whole},
		{"no decision", "pod d/a: s asked at 03:04:05.070000 for a bind to node n1: the log has no decision",
			whole[1:]},
		{"a held pod was never allowed", "pod d/a: s asked at 03:04:05.070000 for a bind to node n1", []string{
			whole[0], decision("05.001", "b", "Scheduled", "n2", ""),
		}},
		{"a decision for another node",
			"no decision for that node is older; the last one is entry 7 at 03:04:05.000000",
			[]string{decision("05.0", "a", "Scheduled", "n2", ""), whole[1]}},
		{"a decision that is later than the bind", "no decision for that node is older", []string{
			decision("05.075", "a", "Scheduled", "n1", ""), whole[1],
		}},
		{"a result that says it failed", "pod d/b is bound to node n2, and the log's last result says Failed",
			append(whole[:3:3], result("b", "n2", "Failed"))},
		{"a result that says it is unknown", "", append(whole[:3:3], result("b", "n2", "Unknown"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := world()
			h.bind("s", "a", "n1", 201)
			h.bind("s", "b", "n2", 201)
			h.bind("other", "single", "n2", 201)
			d, err := accountant.ReadDecisions(strings.NewReader(strings.Join(c.log, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			found := h.account(t).CheckDecisions(d, accountant.Options{Schedulers: []string{"s"}}, 0)
			text := strings.Join(found, "\n")
			if c.found == "" && text != "" || !strings.Contains(text, c.found) {
				t.Errorf("found:\n%s\nwanted: %s", text, c.found)
			}
		})
	}
}

// TestEvictionsWithoutADecisionAreFound compares deletions with logs.
func TestEvictionsWithoutADecisionAreFound(t *testing.T) {
	decision := func(at, victim string) string {
		return fmt.Sprintf(`{"seq":7,"time":"2026-01-02T03:%sZ","kind":"Decision","decision":{"uid":"b",`+
			`"outcome":"Unschedulable","victims":[%q]}}`, at, victim)
	}
	result := func(decision int, outcome string) string {
		return fmt.Sprintf(`{"seq":9,"time":"2026-01-02T03:05:00Z","kind":"EvictResult","uid":"a","outcome":%q,`+
			`"decisionSeq":%d}`, outcome, decision)
	}
	for _, c := range []struct {
		name, found string
		log         []string
	}{
		{"a decision before it", "", []string{decision("04:05.0", "a"), result(7, "Done")}},
		{"no decision", "pod d/a: s asked at", []string{decision("04:05.0", "b")}},
		{"a decision that is later", "no decision to evict it is older", []string{decision("59:05.0", "a")}},
		{"a result that says that it stays", "pod d/a was deleted by s, and entry 9 says that it stays",
			[]string{decision("04:05.0", "a"), result(7, "Withdrawn")}},
		{"it was decided again", "",
			[]string{decision("04:05.0", "a"), result(7, "GivenUp"), decision("04:05.0", "a")}},
		{"a result of another decision", "which entry 6 did not ask for",
			[]string{decision("04:05.0", "a"), result(6, "Done")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := world()
			h.evict("s", "a")
			d, err := accountant.ReadDecisions(strings.NewReader(strings.Join(c.log, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			found := h.account(t).CheckDecisions(d, accountant.Options{Schedulers: []string{"s"}}, 0)
			text := strings.Join(found, "\n")
			if c.found == "" && text != "" || !strings.Contains(text, c.found) {
				t.Errorf("found:\n%s\nwanted: %s", text, c.found)
			}
		})
	}
}

// TestTornLinesOfAKilledServerAreRead reads a log whose writer was killed in the middle of a line, at the end and not.
func TestTornLinesOfAKilledServerAreRead(t *testing.T) {
	whole := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"list",` +
		`"objectRef":{"resource":"pods"}}`
	torn := whole[:70]
	for _, text := range []string{whole + "\n" + torn, torn + whole + "\n" + whole + "\n", torn + whole} {
		a, err := accountant.Read(strings.NewReader(text))
		if err != nil || a.Requests["list pods"] == 0 {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	if _, err := accountant.Read(strings.NewReader("what is this\n" + whole + "\n")); err == nil {
		t.Error("a line that is no Event was read")
	}
}

// TestABindMayBeAnsweredBeforeItsPodsCreation reads a log of a busy API server: a pod's bind is answered before the
// request that created the pod. A bind of a pod that nothing shows is an error.
func TestABindMayBeAnsweredBeforeItsPodsCreation(t *testing.T) {
	pod := `{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"someone"},` +
		`"objectRef":{"resource":"pods","namespace":"ns","name":"a"},"responseStatus":{"code":201},"responseObject":` +
		`{"kind":"Pod","metadata":{"namespace":"ns","name":"a","uid":"u"}}}` + "\n"
	bind := `{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"scheduler"},` +
		`"objectRef":{"resource":"pods","subresource":"binding","namespace":"ns","name":"a"},` +
		`"responseStatus":{"code":201},"requestObject":{"metadata":{"uid":"u"},"target":{"name":"n"}}}` + "\n"
	for _, text := range []string{pod + bind, bind + pod} {
		a, err := accountant.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := a.Bound("scheduler"); n != 1 {
			t.Errorf("%d bound", n)
		}
	}
	if _, err := accountant.Read(strings.NewReader(bind)); err == nil {
		t.Error("a bind of a pod that nothing shows was read")
	}
}
