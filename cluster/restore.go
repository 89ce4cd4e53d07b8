package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Restore reads the output of AppendState into s. s must be as New made it, but its informers may have handlers and
// indexes: these receive every object as if it were logged just now. The order puts referenced objects first: groups
// and so on by resource, namespace and name; volumes and devices, with the assumptions of decisions about them; nodes;
// pods. After an error s must not be used.
//
// It checks only what it needs to avoid a panic. The caller compares whether AppendState would write the same bytes
// again.
func (s *State) Restore(r *canonical.Reader) error {
	if len(s.pods.byUID) > 0 || len(s.nodes.byName) > 0 {
		return errors.New("restore the cluster: it is not empty")
	}
	s.gangs.restoring = true
	defer func() { s.gangs.restoring = false }()
	if err := s.restoreObjects(r); err != nil {
		return err
	}
	if err := s.volumes.Restore(r); err != nil {
		return err
	}
	if err := s.devices.Restore(r); err != nil {
		return err
	}
	s.deviceChanges = devices.Changes{} // nobody has seen the state before
	nodes, err := readNodes(r)
	if err != nil {
		return err
	}
	images := readImages(r)
	pods, err := s.readPods(r)
	if err != nil {
		return err
	}
	s.gangs.takeRepriced() // they are booked, and counted, only now
	s.bookPods(pods)
	if err := s.restoreNodes(nodes, images); err != nil {
		return err
	}
	for _, p := range pods {
		if _, err := s.informers.Upsert(eventlog.Pods, p.Object); err != nil {
			return err
		}
	}
	return s.gangs.restore(r)
}

// readObject reads an object behind its length.
func readObject(r *canonical.Reader, res eventlog.Resource) (eventlog.Object, error) {
	return decodeObject(r, res, nil)
}

// decodeObject is readObject with a memo, which may be nil.
func decodeObject(r *canonical.Reader, res eventlog.Resource, decoder *eventlog.Decoder) (eventlog.Object, error) {
	b := r.Bytes(string(res))
	if err := r.Err(); err != nil {
		return nil, err
	}
	obj, memory, err := decoder.Object(res, b, r.Memory())
	r.Fail("object", err)
	r.Take("object", memory)
	return obj, r.Err()
}

// restoreObjects reads the objects that are neither pods nor nodes.
func (s *State) restoreObjects(r *canonical.Reader) error {
	next := "" // the resource whose name was read last, if its objects were not
	for _, res := range s.informers.names {
		if encodedElsewhere(res) {
			continue
		}
		if next == "" {
			next = r.String("resource")
		}
		if next != string(res) && leftOutIfEmpty(res) {
			continue
		}
		if next != string(res) {
			r.Fail("resource", fmt.Errorf("%q where %s is expected", next, res))
		}
		next = ""
		for range r.Count(string(res), 1) {
			obj, err := readObject(r, res)
			if err != nil {
				return err
			}
			if _, err := s.Upsert(res, obj); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

func readNodes(r *canonical.Reader) ([]*v1.Node, error) {
	nodes := make([]*v1.Node, r.Count("nodes", 1))
	for i := range nodes {
		obj, err := readObject(r, eventlog.Nodes)
		if err != nil {
			return nil, err
		}
		nodes[i] = obj.(*v1.Node)
	}
	return nodes, r.Err()
}

// imageSize is the size of an image as the first of its nodes told it.
type imageSize struct {
	name string
	size int64
}

func readImages(r *canonical.Reader) []imageSize {
	images := make([]imageSize, r.Count("images", 2))
	for i := range images {
		images[i] = imageSize{name: r.String("image"), size: r.Varint("image size")}
	}
	return images
}

// restoredPod is a pod with its places in its NodeInfo's lists.
type restoredPod struct {
	*Pod
	at slots
}

// readPods reads the pods, makes them members of their groups, and returns them in the order of the encoding.
func (s *State) readPods(r *canonical.Reader) ([]restoredPod, error) {
	pods := make([]restoredPod, r.Count("pods", 6))
	var decoder eventlog.Decoder
	for i := range pods {
		obj, err := decodeObject(r, eventlog.Pods, &decoder)
		if err != nil {
			return nil, err
		}
		p := &Pod{Object: obj.(*v1.Pod)}
		group := r.String("group")
		p.Stage = Stage(r.Byte("stage"))
		flags := r.Flags("pod's flags", 3)
		p.evicted, p.needed = flags[0], flags[1]
		p.Node = r.String("node")
		if p.Stage > Bound || (p.Stage == Pending) != (p.Node == "") {
			r.Fail("stage", fmt.Errorf("%d on node %q", byte(p.Stage), p.Node))
		}
		pods[i].Pod = p
		if p.Node != "" {
			for list := range pods[i].at {
				pods[i].at[list] = r.Int("slot")
			}
			p.Since = eventlog.Time(r.Varint("since"))
		}
		for range r.Count("volumes", 2) {
			p.Volumes = append(p.Volumes, eventlog.VolumeClaim{Claim: r.String("claim"), Volume: r.String("volume")})
		}
		if flags[2] {
			p.Devices = devices.ReadDevices(r)
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
		if err := s.restorePod(p, group); err != nil {
			return nil, err
		}
	}
	return pods, r.Err()
}

func (s *State) restorePod(p *Pod, group string) error {
	name := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
	if _, known := s.pods.byUID[p.Object.UID]; known || s.pods.byName[name] != "" {
		return fmt.Errorf("pod %s (%s) is there twice", name, p.Object.UID)
	}
	info, err := s.pods.newInfo(p.Object)
	if err != nil {
		return fmt.Errorf("pod %s: %w", name, err)
	}
	p.life = declaredLife(p.Object)
	if p.info = info; p.Node != "" && p.Object.Spec.NodeName != p.Node {
		p.info = onNode(info, p.Node)
	}
	s.pods.byUID[p.Object.UID], s.pods.byName[name] = p, p.Object.UID
	if group != "" {
		s.gangs.joinNamed(p, types.NamespacedName{Namespace: name.Namespace, Name: group})
	}
	return nil
}

// bookPods books the pods on their nodes, which are not there yet, in the order in which their lists have them.
func (s *State) bookPods(pods []restoredPod) {
	placed := slices.DeleteFunc(slices.Clone(pods), func(p restoredPod) bool { return p.Node == "" })
	slices.SortStableFunc(placed, func(a, b restoredPod) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(a.at[0], b.at[0]))
	})
	at := make(map[types.UID]slots, len(placed))
	for _, p := range placed {
		s.nodes.at(p.Node).info.AddPodInfo(p.info)
		s.countIn(s.pods.byUID[p.Object.UID])
		s.devices.Place(p.info.Pod)
		at[p.Object.UID] = p.at
	}
	// any order: every node's pods are its own
	for _, n := range s.nodes.byName {
		for list, pods := range slotLists(n.info) {
			if list == 0 {
				continue // added in its order above
			}
			slices.SortStableFunc(pods, func(a, b fwk.PodInfo) int {
				return cmp.Compare(at[a.GetPod().UID][list], at[b.GetPod().UID][list])
			})
		}
	}
}

// restoreNodes puts the nodes under their pods.
func (s *State) restoreNodes(nodes []*v1.Node, images []imageSize) error {
	for _, obj := range nodes {
		if _, err := s.UpsertNode(obj); err != nil {
			return err
		}
	}
	for _, image := range images {
		state, ok := s.nodes.images[image.name]
		if !ok {
			return fmt.Errorf("image %q is on no node", image.name)
		}
		state.Size = image.size
	}
	return nil
}
