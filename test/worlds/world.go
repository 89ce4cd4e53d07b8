package worlds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// World is the input of a simulation.
type World struct {
	Seed uint64
	// Nodes, Workload and Config are the contents of files; Config is empty for the default configuration.
	Nodes, Workload, Config []byte
	// Args are further flags of `rollcall simulate`.
	Args []string
	// Until is the value of --until, 0 for none. Args has it too.
	Until time.Duration
}

// Generate makes the world of a seed.
func Generate(seed uint64) World {
	b := &builder{rand: rand.New(rand.NewPCG(seed, 0x726f6c6c63616c6c)),
		apart: rand.New(rand.NewPCG(seed, 0x64657669636573)), names: map[string]int{}}
	b.recorded = b.chance(25)
	b.choose()
	b.makeNodes()
	b.makeStorage()
	b.makeDevices()
	b.makeBudgets()
	for b.pods < b.wantedPods {
		b.makeSomething()
	}
	w := World{Seed: seed, Config: b.config()}
	if b.recorded {
		w.Nodes, w.Workload = b.recordedNodes(), b.recording()
	} else {
		troubleNodes(b.nodes, b.objects, rand.New(rand.NewPCG(seed, 0x6f757461676573)))
		w.Nodes, w.Workload = documents(b.nodes), documents(b.objects)
	}
	w.Args = b.args
	if b.chance(15) {
		w.Until = time.Duration(30+b.below(300)) * time.Second
		w.Args = append(w.Args, "--until", w.Until.String())
	}
	return w
}

// Write writes the world's files into a directory and returns the flags of `rollcall simulate` that name them.
func (w *World) Write(dir string) (args []string, err error) {
	for _, f := range []struct {
		flag, name string
		data       []byte
	}{
		{"--nodes", "nodes", w.Nodes}, {"--workload", "workload", w.Workload}, {"--config", "config.json", w.Config},
	} {
		if len(f.data) == 0 {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			return nil, err
		}
		args = append(args, f.flag, path)
	}
	return append(args, w.Args...), nil
}

// object is an object of the Kubernetes API.
type object = map[string]any

// list is a list in an object.
type list = []any

// builder makes one world.
type builder struct {
	rand  *rand.Rand
	apart *rand.Rand     // see draw
	names map[string]int // how many objects have a name of each kind

	recorded   bool // the workload is a log of another simulation
	nodes      []object
	objects    []object // of the workload, in the order of the file
	wantedPods int
	pods       int
	args       []string

	// style has the probability of each feature of a pod, in percent.
	style map[string]int
	// shapes are the requests that pods choose from: few, so that ties are common.
	shapes   []object
	profiles []string // scheduler names
	claims   []string // claims that no pod uses yet
	// sharedClaims are ResourceClaims that pods share, with their namespaces.
	sharedClaims []string
	hasGPU       bool
	classes      []priorityClass
}

type priorityClass struct {
	name  string
	value int
}

// below returns a number from 0 to n-1.
func (b *builder) below(n int) int { return b.rand.IntN(n) }

// between returns a number from low to high.
func (b *builder) between(low, high int) int { return low + b.below(high-low+1) }

// chance reports true in so many of a hundred cases.
func (b *builder) chance(percent int) bool { return b.below(100) < percent }

// has reports whether the thing at hand has a feature, as likely as this world's style says.
func (b *builder) has(feature string) bool { return b.chance(b.style[feature]) }

// one returns one of the choices.
func one[T any](b *builder, choices ...T) T { return choices[b.below(len(choices))] }

// name returns a new name that begins with a word.
func (b *builder) name(word string) string {
	b.names[word]++
	return fmt.Sprintf("%s-%d", word, b.names[word])
}

// features are the possible features of a pod or a gang, with their probability in a world that has the feature at
// all.
var features = []struct {
	name           string
	world, percent int
}{
	{"nodeSelector", 50, 25}, {"nodeAffinity", 50, 20}, {"tolerations", 60, 50}, {"podAffinity", 40, 20},
	{"podAntiAffinity", 45, 25}, {"spread", 45, 30}, {"ports", 40, 25}, {"gates", 40, 8}, {"volumes", 40, 30},
	{"init", 40, 25}, {"sidecar", 30, 20}, {"overhead", 30, 15}, {"priority", 75, 60}, {"never", 50, 20},
	{"deadline", 40, 15}, {"forever", 50, 20}, {"topology", 50, 40}, {"preferred", 40, 20}, {"evict", 60, 60},
	{"gangPriority", 50, 40}, {"whole", 50, 50}, {"minResources", 40, 30}, {"timeout", 50, 40}, {"nonStrict", 40, 25},
	{"incomplete", 40, 12}, {"contradiction", 25, 10}, {"recreated", 60, 30},
}

// choose decides what the world is like.
func (b *builder) choose() {
	b.style = map[string]int{}
	for _, f := range features {
		if b.chance(f.world) {
			b.style[f.name] = f.percent
		}
	}
	b.wantedPods = one(b, b.between(5, 15), b.between(10, 40), b.between(30, 75))
	for range b.between(2, 5) {
		b.shapes = append(b.shapes, object{
			"cpu": one(b, "100m", "500m", "1", "1500m", "2", "3"), "memory": one(b, "64Mi", "512Mi", "1Gi", "2Gi",
				"3G"),
		})
	}
	b.profiles = []string{"default-scheduler"}
	if b.chance(20) {
		b.profiles = append(b.profiles, "second-scheduler")
	}
	for _, c := range []priorityClass{{"low", -10}, {"mid", 100}, {"high", 1000}} {
		b.classes = append(b.classes, c)
		class := object{
			"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": object{"name": c.name},
			"value": c.value,
		}
		b.objects = append(b.objects, class)
	}
	if b.chance(35) {
		b.args = append(b.args, "--queue-policy", one(b, "StrictFIFO", "Backfill", "Backfill", "BestEffort"))
	}
	if b.chance(30) {
		b.args = append(b.args, "--snapshot-every", fmt.Sprint(b.between(5, 60)))
	}
}

// arrival is the time at which something comes: on one of few instants.
func (b *builder) arrival() time.Duration {
	if b.chance(30) {
		return 0
	}
	return time.Duration(b.below(24)) * 10 * time.Second
}

// length is for how long a pod runs.
func (b *builder) length() time.Duration { return time.Duration(b.between(1, 18)) * 10 * time.Second }

// annotate adds an annotation to an object.
func annotate(o object, key, value string) {
	into(into(o, "metadata"), "annotations")[key] = value
}

// into returns the object in a field of o, which it makes if there is none.
func into(o object, field string) object {
	if o[field] == nil {
		o[field] = object{}
	}
	return o[field].(object)
}

// documents writes objects as YAML, which JSON between lines of three dashes is.
func documents(objects []object) []byte {
	var out bytes.Buffer
	for _, o := range objects {
		out.WriteString("---\n")
		text, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("a world's object is no JSON: %v", err))
		}
		out.Write(text)
		out.WriteString("\n")
	}
	return out.Bytes()
}

// String names the world for people.
func (w *World) String() string {
	return fmt.Sprintf("world %d (%s)", w.Seed, strings.Join(w.Args, " "))
}
