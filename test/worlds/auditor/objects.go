package auditor

import (
	"encoding/json"
	"time"
)

// The parts of the Kubernetes API that the auditor reads, under the names that they have there.

type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
}

type nodeObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Unschedulable bool    `json:"unschedulable"`
		Taints        []taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Allocatable amounts `json:"allocatable"`
	} `json:"status"`
}

type taint struct{ Key, Value, Effect string }

type toleration struct {
	Key, Operator, Value, Effect string
	TolerationSeconds            *int64
}

type podObject struct {
	Metadata meta    `json:"metadata"`
	Spec     podSpec `json:"spec"`
	Status   struct {
		Phase             string `json:"phase"`
		NominatedNodeName string `json:"nominatedNodeName"`
		Conditions        []struct{ Type, Reason string }

		ResourceClaimStatuses []struct{ Name, ResourceClaimName string }
	} `json:"status"`
}

type podSpec struct {
	NodeName              string            `json:"nodeName"`
	SchedulerName         string            `json:"schedulerName"`
	Priority              int32             `json:"priority"`
	PriorityClassName     string            `json:"priorityClassName"`
	PreemptionPolicy      string            `json:"preemptionPolicy"`
	ActiveDeadlineSeconds int64             `json:"activeDeadlineSeconds"`
	NodeSelector          map[string]string `json:"nodeSelector"`
	Affinity              struct {
		NodeAffinity struct {
			Required *nodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
		PodAffinity     podAffinity `json:"podAffinity"`
		PodAntiAffinity podAffinity `json:"podAntiAffinity"`
	} `json:"affinity"`
	Tolerations               []toleration       `json:"tolerations"`
	TopologySpreadConstraints []spreadConstraint `json:"topologySpreadConstraints"`
	SchedulingGates           []struct{ Name string }
	ResourceClaims            []struct{ Name, ResourceClaimName string }
	SchedulingGroup           struct {
		PodGroupName string `json:"podGroupName"`
	} `json:"schedulingGroup"`
	Overhead       amounts     `json:"overhead"`
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	Volumes        []struct {
		PersistentVolumeClaim *struct {
			ClaimName string `json:"claimName"`
		} `json:"persistentVolumeClaim"`
	} `json:"volumes"`
}

type container struct {
	RestartPolicy string `json:"restartPolicy"`
	Resources     struct {
		Requests amounts `json:"requests"`
		Limits   amounts `json:"limits"`
	} `json:"resources"`
	Ports []port `json:"ports"`
}

// requests are the container's requests. As in the API's defaults, a limit is also the request if that is not given.
func (c *container) requests() amounts {
	all := amounts{}
	all.add(c.Resources.Limits)
	for resource, q := range c.Resources.Requests {
		all[resource] = q
	}
	return all
}

type port struct {
	HostPort int    `json:"hostPort"`
	HostIP   string `json:"hostIP"`
	Protocol string `json:"protocol"`
}

type nodeSelector struct {
	NodeSelectorTerms []struct {
		MatchExpressions []requirement `json:"matchExpressions"`
		MatchFields      []requirement `json:"matchFields"`
	} `json:"nodeSelectorTerms"`
}

type requirement struct {
	Key, Operator string
	Values        []string
}

type labelSelector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []requirement     `json:"matchExpressions"`
}

type podAffinity struct {
	Required []affinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
}

type affinityTerm struct {
	LabelSelector *labelSelector `json:"labelSelector"`
	Namespaces    []string       `json:"namespaces"`
	TopologyKey   string         `json:"topologyKey"`
}

type spreadConstraint struct {
	MaxSkew            int            `json:"maxSkew"`
	MinDomains         int            `json:"minDomains"`
	TopologyKey        string         `json:"topologyKey"`
	WhenUnsatisfiable  string         `json:"whenUnsatisfiable"`
	LabelSelector      *labelSelector `json:"labelSelector"`
	NodeAffinityPolicy string         `json:"nodeAffinityPolicy"`
	NodeTaintsPolicy   string         `json:"nodeTaintsPolicy"`
}

// groupObject is a PodGroup of either API, or a CompositePodGroup.
type groupObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		SchedulingPolicy struct {
			Basic *struct{} `json:"basic"`
			Gang  *struct {
				MinCount      int `json:"minCount"`
				MinGroupCount int `json:"minGroupCount"`
			} `json:"gang"`
		} `json:"schedulingPolicy"`
		SchedulingConstraints *struct {
			Topology []struct{ Key string } `json:"topology"`
		} `json:"schedulingConstraints"`
		Priority          *int32 `json:"priority"`
		PriorityClassName string `json:"priorityClassName"`
		PreemptionPolicy  string `json:"preemptionPolicy"`
		DisruptionMode    *struct {
			All *struct{} `json:"all"`
		} `json:"disruptionMode"`
		Parent       string  `json:"parentCompositePodGroupName"`
		MinMember    int     `json:"minMember"`
		MinResources amounts `json:"minResources"`
	} `json:"spec"`
}

type claimObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		AccessModes      []string `json:"accessModes"`
		StorageClassName string   `json:"storageClassName"`
		VolumeName       string   `json:"volumeName"`
		Resources        struct {
			Requests amounts `json:"requests"`
		} `json:"resources"`
	} `json:"spec"`
}

type volumeObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		AccessModes      []string `json:"accessModes"`
		StorageClassName string   `json:"storageClassName"`
		Capacity         amounts  `json:"capacity"`
		ClaimRef         *struct{ Namespace, Name, UID string }
		NodeAffinity     struct {
			Required *nodeSelector `json:"required"`
		} `json:"nodeAffinity"`
	} `json:"spec"`
}

type classObject struct {
	Metadata          meta   `json:"metadata"`
	Provisioner       string `json:"provisioner"`
	VolumeBindingMode string `json:"volumeBindingMode"`
	AllowedTopologies []struct {
		MatchLabelExpressions []struct {
			Key    string
			Values []string
		} `json:"matchLabelExpressions"`
	} `json:"allowedTopologies"`
}

type priorityClassObject struct {
	Metadata meta  `json:"metadata"`
	Value    int32 `json:"value"`
}

type budgetObject struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Selector *labelSelector `json:"selector"`
	} `json:"spec"`
	Status struct {
		DisruptionsAllowed int `json:"disruptionsAllowed"`
	} `json:"status"`
}

// entry is a line of `rollcall log cat`.
type entry struct {
	Seq       uint64          `json:"seq"`
	Epoch     uint64          `json:"epoch"`
	Time      time.Time       `json:"time"`
	Kind      string          `json:"kind"`
	Config    json.RawMessage `json:"config"`
	Resource  string          `json:"resource"`
	Object    json.RawMessage `json:"object"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       string          `json:"uid"`
	Node      string          `json:"node"`
	Outcome   string          `json:"outcome"`
	Decision  *decision       `json:"decision"`
}

type decision struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Group     string `json:"group"`
	Outcome   string `json:"outcome"`
	Node      string `json:"node"`
	Evaluated int64  `json:"evaluated"`
	Feasible  int64  `json:"feasible"`
	Allowed   []string
	Rejected  []string
	Victims   []named
	WaitUntil time.Time `json:"waitUntil"`
	Nominated string    `json:"nominated"`
	Volumes   []struct{ Claim, Volume string }
	Devices   []struct {
		Claim      string
		Allocation allocation
	}
	Places []place
	// Nominations are of other pods; one without a node ends.
	Nominations []place
	Domain      string `json:"domain"`
	Rejections  []struct {
		Plugin string
		Nodes  int64
	}
}

type place struct{ UID, Node string }

// named is the UID of a pod, either alone or as a field of an object.
type named struct{ UID string }

// UnmarshalJSON reads either form.
func (n *named) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &n.UID); err == nil {
		return nil
	}
	var object struct{ UID string }
	err := json.Unmarshal(data, &object)
	n.UID = object.UID
	return err
}

// configuration is the part of an epoch's configuration that the auditor reads.
type configuration struct {
	PodInitialBackoffSeconds int64 `json:"podInitialBackoffSeconds"`
	PodMaxBackoffSeconds     int64 `json:"podMaxBackoffSeconds"`
	Profiles                 []struct {
		SchedulerName string `json:"schedulerName"`
		Plugins       map[string]struct {
			Enabled, Disabled []struct{ Name string }
		} `json:"plugins"`
		PluginConfig []struct {
			Name string
			Args struct {
				QueuePolicy            string `json:"queuePolicy"`
				BackfillHoldSeconds    *int64 `json:"backfillHoldSeconds"`
				PodGroupBackoffSeconds int64  `json:"podGroupBackoffSeconds"`
			}
		} `json:"pluginConfig"`
	} `json:"profiles"`
}
