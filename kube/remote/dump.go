package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/dump"
)

// listAtOnce is the number of objects in one answer of the API server.
const listAtOnce = 500

// dumpRate is the number of requests in a second.
const dumpRate = 100

// Dump lists the objects of a cluster that a dump should have, and writes them as one List, as kubectl get -o json
// does. It needs memory for one answer of the API server. Resources that the API server does not serve, or that the
// account may not list, are left out, and told to report. Without nodes or pods there is no dump.
func Dump(ctx context.Context, config *rest.Config, w io.Writer, report func(message string)) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = dumpRate, 2*dumpRate // client-go's default of 5 would make it wait for seconds
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":["); err != nil {
		return err
	}
	d := &dumping{ctx: ctx, client: client, w: w, before: "\n"}
	for _, kind := range dump.Kinds() {
		err := d.first(kind)
		switch {
		case err == nil:
		case kind.Resource == eventlog.Nodes || kind.Resource == eventlog.Pods:
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		case apierrors.IsNotFound(err):
			if !kind.Optional {
				report(fmt.Sprintf("the API server has no %s: the dump is without them", kind.Resource))
			}
		case apierrors.IsForbidden(err):
			report(fmt.Sprintf("the account may not list %s: answers are as if there were none", kind.Resource))
		default:
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
	}
	_, err = io.WriteString(w, "\n]}\n")
	return err
}

// dumping is a dump under way.
type dumping struct {
	ctx    context.Context
	client dynamic.Interface
	w      io.Writer
	before string // what comes before the next object
}

// first lists the objects of a resource in the first of its versions that the API server has.
func (d *dumping) first(kind dump.Kind) (err error) {
	for _, version := range kind.Versions {
		if err = d.list(d.client.Resource(version)); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

// list writes the objects of a resource.
func (d *dumping) list(objects dynamic.ResourceInterface) error {
	options := metav1.ListOptions{Limit: listAtOnce}
	for {
		list, err := objects.List(d.ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			text, err := json.Marshal(list.Items[i].Object)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(d.w, d.before); err != nil {
				return err
			}
			if _, err := d.w.Write(text); err != nil {
				return err
			}
			d.before = ",\n"
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
