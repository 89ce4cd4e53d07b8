package answer

// Managed has the facts about a pod in another project's queueing, as far as the pod itself tells them: by its labels,
// annotations and scheduling gates. The project's own objects, such as queues and workloads, are not in the log.
type Managed struct {
	// Project is Kueue, Volcano, KAI or YuniKorn.
	Project string `json:"project"`
	// Queue is the queue that the pod names, Gang its group or application, and Part its part of it; "" for none.
	Queue string `json:"queue,omitempty"`
	Gang  string `json:"gang,omitempty"`
	Part  string `json:"part,omitempty"`
	// Admitted says whether the project has let the pod go to its scheduler; nil if the pod does not say.
	Admitted *bool `json:"admitted,omitempty"`
	// Gates are the project's scheduling gates that the pod still has.
	Gates []string `json:"gates,omitempty"`
	// From are the labels, annotations and fields that say it.
	From []string `json:"from"`
}
