package dump

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// reportAll reports what a person should know about what was read, and about what was not.
func (c *collection) reportAll() {
	if !c.audit {
		c.report("the dump's time is %s: %s", c.time.UTC().Format("2006-01-02 15:04:05Z"), c.whose)
	}
	if text := c.leftText(); text != "" {
		c.report("%s", strings.TrimPrefix(text, ": "))
	}
	if c.others > 0 {
		c.report("not opened: %s of other resources", count(c.others, "file"))
	}
	if c.finished > 0 && !c.audit {
		c.report("left out: %s that had finished, which hold nothing", count(c.finished, "pod"))
	}
	for _, kind := range slices.Sorted(maps.Keys(c.older)) {
		c.report("%s of %s: read as the version of today", count(c.older[kind], "object"), kind)
	}
	for _, res := range slices.Sorted(maps.Keys(c.twice)) {
		if res == "events" {
			c.report("%s came twice, and count once", count(c.twice[res], "event"))
			continue
		}
		c.report("%s came twice (%s): the newest version is taken", count(c.twice[res], "object"), res)
	}
	c.reportUnusable()
	c.reportMissing()
}

// reportMissing says that pods name objects of a kind of which the dump has none: it was probably not asked for.
// Answers about these pods are then wrong: they say that a claim is not found.
func (c *collection) reportMissing() {
	if c.audit {
		return
	}
	volumes, claims := 0, 0
	has := map[eventlog.Resource]bool{}
	// any order: they are counted
	for n, f := range c.objects {
		has[n.resource] = true
		if f.volumes {
			volumes++
		}
		if f.claims {
			claims++
		}
	}
	for _, missing := range []struct {
		pods     int
		resource eventlog.Resource
		kind     string
		get      string
	}{
		{volumes, eventlog.PersistentVolumeClaims, "PersistentVolumeClaims", "pvc,pv,storageclasses"},
		{claims, eventlog.ResourceClaims, "ResourceClaims", "resourceclaims,resourceslices,deviceclasses"},
	} {
		if missing.pods > 0 && !has[missing.resource] {
			c.report("the dump has no %s, and %s of it name some: answers are as if these did not exist; add %s to "+
				"kubectl get", missing.kind, count(missing.pods, "pod"), missing.get)
		}
	}
}

// leftText says what is not taken in, behind a colon; "" for nothing.
func (c *collection) leftText() string {
	if len(c.left) == 0 {
		return ""
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.left)) {
		parts = append(parts, fmt.Sprintf("%d %s", c.left[kind], kind))
	}
	if more := len(parts) - maxKinds; more > 0 {
		parts = append(parts[:maxKinds], fmt.Sprintf("and %d kinds more", more))
	}
	return ": left out, because scheduling does not read them: " + strings.Join(parts, ", ")
}

// maxKinds is the number of kinds that a note names.
const maxKinds = 12

// reportUnusable reports the writes of an audit log that have no object.
func (c *collection) reportUnusable() {
	total := 0
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(c.unusable)) {
		total += c.unusable[why]
		parts = append(parts, fmt.Sprintf("%s (%d)", why, c.unusable[why]))
	}
	if total > 0 {
		c.report("%d of %d write events carry no object: %s; what they changed is not known", total,
			total+len(c.events), strings.Join(parts, ", "))
	}
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
