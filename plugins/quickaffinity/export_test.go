package quickaffinity

import v1 "k8s.io/api/core/v1"

// Kept reports whether there are counts for the pod's terms.
func (a *Affinity) Kept(pod *v1.Pod) bool {
	key, err := a.appendKey(pod)
	return err == nil && a.ledger.Find(key) != nil
}

// Listed returns how often, ever, all namespaces were listed.
func (a *Affinity) Listed() int { return a.namespaces.listed }

// MaxNews bounds how many namespaces are named that there is news of.
const MaxNews = maxNews
