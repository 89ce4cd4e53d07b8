package cluster

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// This file is about resources that a configuration declares because plugins read them. Plugins find their informers
// by ForResource.

// Declare makes informers of resources, as eventlog.CompleteOwn returns them. It must be called before anything comes.
func (f *Informers) Declare(resources []eventlog.OwnResource) {
	for _, own := range resources {
		informer := newLogInformer(reflect.TypeFor[*unstructured.Unstructured]())
		f.factory.byResource[own.Resource] = informer
		f.own = append(f.own, own)
	}
}

// Declared returns the declaration of a resource; false if it is not declared.
func (f *Informers) Declared(res eventlog.Resource) (eventlog.OwnResource, bool) {
	for _, own := range f.own {
		if own.Resource == res {
			return own, true
		}
	}
	return eventlog.OwnResource{}, false
}

// AppendOwn appends the objects of declared resources, by resource, namespace and name. Without a declared resource it
// appends nothing.
func (f *Informers) AppendOwn(dst []byte) []byte {
	for _, own := range f.own {
		objects := f.List(own.Resource)
		dst = canonical.AppendString(dst, string(own.Resource))
		dst = binary.AppendUvarint(dst, uint64(len(objects)))
		for _, obj := range objects {
			dst = mustAppendObject(dst, obj)
		}
	}
	return dst
}

// RestoreOwn reads what AppendOwn wrote under the same declarations.
func (s *State) RestoreOwn(r *canonical.Reader) error {
	for _, own := range s.informers.own {
		if got := r.String("resource"); got != string(own.Resource) {
			r.Fail("resource", fmt.Errorf("%q where %s is expected", got, own.Resource))
		}
		for range r.Count(string(own.Resource), 1) {
			obj, err := readObject(r, own.Resource)
			if err != nil {
				return err
			}
			if _, err := s.Upsert(own.Resource, obj); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

// TakeOver takes in the objects of another State whose resources are declared here, cut down to the fields that are
// declared here. The others are forgotten.
func (s *State) TakeOver(from *State) error {
	trim := eventlog.NewOwnTrim(s.informers.own)
	for _, own := range from.informers.own {
		if now, declared := s.informers.Declared(own.Resource); !declared || now.Version != own.Version ||
			now.Kind != own.Kind || now.Namespaced != own.Namespaced {
			continue
		}
		for _, obj := range from.informers.List(own.Resource) {
			kept, err := trim.Trim(own.Resource, obj.(*unstructured.Unstructured))
			if err != nil {
				return fmt.Errorf("%s %s: %w", own.Resource, keyOf(obj), err)
			}
			if _, err := s.Upsert(own.Resource, kept); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownInformer returns the informer of a declared resource; nil if it is none.
func (f *Informers) ownInformer(gvr schema.GroupVersionResource) (informers.GenericInformer, error) {
	own, declared := f.Declared(eventlog.Resource(gvr.GroupResource().String()))
	if !declared {
		return nil, nil
	}
	if own.Version != gvr.Version {
		return nil, fmt.Errorf("no informer found for %v: the configuration declares version %s", gvr, own.Version)
	}
	return genericLogInformer{
		informer: f.factory.byResource[own.Resource], resource: gvr.GroupResource(),
	}, nil
}
