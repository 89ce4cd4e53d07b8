package effect

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/component-helpers/storage/volume"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// pollVolumes is the interval between reads of a pod's claims while they are being bound, as in kube-scheduler.
const pollVolumes = time.Second

// written is a volume or a claim that was updated: an object of a cache that is older says nothing.
type written struct{ volume, claim, version string }

// bindVolumes writes the volumes that the decision has for the pod's claims, as kube-scheduler's BindPodVolumes does
// (pkg/scheduler/framework/plugins/volumebinding/binder.go). A volume gets its claim, and a claim that is to be
// provisioned gets the node. The PersistentVolume controller does the rest.
func (b *binding) bindVolumes(ctx context.Context) turn {
	for ; b.settled < len(b.Volumes); b.settled++ {
		if err := b.settleVolume(ctx, b.Volumes[b.settled]); err != nil {
			b.readBack = true
			return b.again(b.bindVolumes, fmt.Errorf("binding volumes: %w", err))
		}
		b.readBack, b.tries, b.offSince = false, 0, time.Time{}
	}
	b.deadline = b.opts.Clock.Now().Add(b.opts.BindTimeout)
	return turn{next: b.awaitDevices}
}

func (b *binding) settleVolume(ctx context.Context, v eventlog.VolumeClaim) error {
	claim, err := b.readClaim(ctx, v.Claim)
	if err != nil {
		return err
	}
	switch {
	case v.Volume == "":
		return b.askForVolume(ctx, claim)
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.Volume:
		return inconsistent("claim %q is bound to volume %q", claim.Name, claim.Spec.VolumeName)
	}
	pv, err := b.readVolume(ctx, v.Volume)
	if err != nil {
		return err
	}
	if ref := pv.Spec.ClaimRef; ref != nil && !volume.IsVolumeBoundToClaim(pv, claim) {
		return inconsistent("volume %q belongs to claim %s/%s", pv.Name, ref.Namespace, ref.Name)
	}
	bound, changed, err := volume.GetBindVolumeToClaim(pv, claim)
	switch {
	case err != nil:
		return &inconsistentError{err}
	case !changed:
		return nil
	}
	return b.call(ctx, CallUpdateVolume, func(ctx context.Context) error {
		updated, err := b.opts.Client.CoreV1().PersistentVolumes().Update(ctx, bound, metav1.UpdateOptions{})
		if err == nil {
			b.written = append(b.written, written{volume: updated.Name, version: updated.ResourceVersion})
		}
		return err
	})
}

// askForVolume has a volume provisioned for the claim on the node.
func (b *binding) askForVolume(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	switch selected, ok := claim.Annotations[volume.AnnSelectedNode]; {
	case ok && selected == b.Node, isBound(claim):
		return nil
	case ok:
		return inconsistent("claim %q is being provisioned for node %q", claim.Name, selected)
	}
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, b.Node)
	return b.call(ctx, CallUpdateClaim, func(ctx context.Context) error {
		updated, err := b.opts.Client.CoreV1().PersistentVolumeClaims(b.Namespace).Update(ctx, claim,
			metav1.UpdateOptions{})
		if err == nil {
			b.written = append(b.written, written{claim: updated.Name, version: updated.ResourceVersion})
		}
		return err
	})
}

// awaitVolumes waits until the claims are bound.
func (b *binding) awaitVolumes(ctx context.Context) turn {
	if len(b.Volumes) == 0 {
		return turn{next: b.preBind}
	}
	if err := b.opts.Still(b.Effect); err != nil {
		return b.fail(err)
	}
	for _, v := range b.Volumes {
		done, err := b.isSettled(ctx, v)
		if err != nil {
			b.readBack = true
			return b.again(b.awaitVolumes, fmt.Errorf("binding volumes: %w", err))
		}
		if done {
			continue
		}
		b.readBack, b.tries, b.offSince = false, 0, time.Time{}
		if b.opts.Clock.Now().Before(b.deadline) {
			return turn{next: b.awaitVolumes, after: pollVolumes, idle: true}
		}
		return b.fail(fmt.Errorf("binding volumes: %w", context.DeadlineExceeded))
	}
	b.tries, b.offSince = 0, time.Time{}
	return turn{next: b.preBind}
}

// isSettled reports whether the claim is bound, with the checks and the words of kube-scheduler's checkBindings.
func (b *binding) isSettled(ctx context.Context, v eventlog.VolumeClaim) (bool, error) {
	claim, err := b.readClaim(ctx, v.Claim)
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	name := v.Volume
	if name == "" {
		if b.isStale(written{claim: claim.Name, version: claim.ResourceVersion}) {
			return false, nil
		}
		switch selected := claim.Annotations[volume.AnnSelectedNode]; {
		case isBound(claim):
		case claim.Annotations == nil:
			return false, inconsistent("selectedNode annotation reset for PVC %q", claim.Name)
		case selected != b.Node: // a provisioner that fails takes the annotation away
			return false, inconsistent("provisioning failed for PVC %q", claim.Name)
		}
		if name = claim.Spec.VolumeName; name == "" {
			return false, nil
		}
	}
	pv, err := b.readVolume(ctx, name)
	switch {
	case apierrors.IsNotFound(err) && v.Volume == "":
		return false, nil // the cache may not have it yet
	case err != nil:
		return false, fmt.Errorf("failed to check binding: %w", err)
	case b.isStale(written{volume: pv.Name, version: pv.ResourceVersion}):
		return false, nil
	case v.Volume != "" && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == ""):
		return false, inconsistent("ClaimRef got reset for pv %q", pv.Name)
	}
	if !isBound(claim) {
		return false, nil
	}
	return true, b.checkAffinity(ctx, pv)
}

// checkAffinity reports whether the volume can be reached from the node. A volume of a plugin in the tree of Kubernetes
// is read as it is, not as its CSI driver would have it.
func (b *binding) checkAffinity(ctx context.Context, pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil {
		return nil
	}
	node, err := b.readNode(ctx)
	if err != nil {
		return fmt.Errorf("failed to get node %q: %w", b.Node, err)
	}
	if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
		return inconsistent("pv %q node affinity doesn't match node %q: %w", pv.Name, b.Node, err)
	}
	return nil
}

// isBound reports whether the PersistentVolume controller has bound the claim.
func isBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// isStale reports whether the object is older than the last write to it.
func (b *binding) isStale(seen written) bool {
	for _, w := range b.written {
		if w.volume != seen.volume || w.claim != seen.claim {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(seen.version, w.version); err == nil && order < 0 {
			return true
		}
	}
	return false
}

func (b *binding) readClaim(ctx context.Context, name string) (claim *v1.PersistentVolumeClaim, err error) {
	if !b.readBack {
		known, ok := b.opts.Whole(eventlog.PersistentVolumeClaims, b.Namespace, name).(*v1.PersistentVolumeClaim)
		if ok {
			return known, nil
		}
	}
	err = b.call(ctx, CallReadClaim, func(ctx context.Context) (err error) {
		claim, err = b.opts.Client.CoreV1().PersistentVolumeClaims(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return claim, err
}

func (b *binding) readVolume(ctx context.Context, name string) (pv *v1.PersistentVolume, err error) {
	if !b.readBack {
		if known, ok := b.opts.Whole(eventlog.PersistentVolumes, "", name).(*v1.PersistentVolume); ok {
			return known, nil
		}
	}
	err = b.call(ctx, CallReadVolume, func(ctx context.Context) (err error) {
		pv, err = b.opts.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return pv, err
}

func (b *binding) readNode(ctx context.Context) (node *v1.Node, err error) {
	err = b.call(ctx, CallReadNode, func(ctx context.Context) (err error) {
		node, err = b.opts.Client.CoreV1().Nodes().Get(ctx, b.Node, metav1.GetOptions{})
		return err
	})
	return node, err
}
