package admission

import (
	"context"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	nodev1client "k8s.io/client-go/kubernetes/typed/node/v1"
)

// client is the client of the plugins. A plugin asks it for an object that the informers do not have, and it has none
// either. A Chain runs plugins such that no other method is called.
type client struct{ kubernetes.Interface }

// NodeV1 implements kubernetes.Interface.
func (client) NodeV1() nodev1client.NodeV1Interface { return nodeClient{} }

type nodeClient struct{ nodev1client.NodeV1Interface }

// RuntimeClasses implements nodev1client.RuntimeClassesGetter.
func (nodeClient) RuntimeClasses() nodev1client.RuntimeClassInterface { return runtimeClasses{} }

type runtimeClasses struct {
	nodev1client.RuntimeClassInterface
}

// Get implements nodev1client.RuntimeClassInterface.
func (runtimeClasses) Get(_ context.Context, name string, _ metav1.GetOptions) (*nodev1.RuntimeClass, error) {
	return nil, apierrors.NewNotFound(nodev1.Resource("runtimeclasses"), name)
}
