package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
)

// CheckResize lets the plugin PersistentVolumeClaimResize refuse the change of a claim from was to is. class is the
// StorageClass that is names, nil if there is none. The error is a Refusal.
func CheckResize(was, is *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	factory := informers.NewSharedInformerFactory(client{}, 0)
	all := upstream.NewPlugins()
	resize.Register(all)
	plugin, err := all.InitPlugin(resize.PluginName, nil,
		initializer.New(client{}, nil, factory, nil, utilfeature.DefaultFeatureGate, nil, nil, nil))
	if err != nil {
		return fmt.Errorf("start admission plugin %s: %w", resize.PluginName, err)
	}
	if class != nil {
		if err := factory.Storage().V1().StorageClasses().Informer().GetStore().Add(class); err != nil {
			return err
		}
	}
	var before, after core.PersistentVolumeClaim
	convert := coredefaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim
	if err := errors.Join(convert(was.DeepCopy(), &before, nil), convert(is.DeepCopy(), &after, nil)); err != nil {
		return err
	}
	attributes := upstream.NewAttributesRecord(&after, &before,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), is.Namespace, is.Name,
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "", upstream.Update,
		&metav1.UpdateOptions{}, false, &user.DefaultInfo{})
	err = plugin.(upstream.ValidationInterface).Validate(context.Background(), attributes, nil)
	if err != nil {
		return &Refusal{resize.PluginName, err}
	}
	return nil
}
