// Package transcripts owns the dialect in which the stories of the scheduler are written, and the stories: the files
// below testdata, one folder for each subject. A story plays inputs into a scheduler.Machine, shows its decisions, and
// may ask package replay/explain to explain them.
//
// Tests of other packages may play lines of the dialect too, to make a log (New, Player.Step). The package never
// stubs the scheduler: plugins, queue and cluster are the real ones. The plugins that exist for stories alone are in
// plugins.go, racklimit.go and quota.go.
//
// Start reading at testdata/bind/one_pod.txt and testdata/gang/fits.txt.
//
// # A story
//
// A story starts with a comment that says what holds. Then come blocks: a command, its input if it has one, the line
// ----, and what happened. "go test ./test/transcripts -rewrite" writes down what happens now; commit such a change
// only if you understand what caused it. Time starts at midnight of 2026-01-01 and passes only by the command advance.
//
// After a story the Player applies its entries to a second Machine, which must decide the same and have the same state
// after each entry. It also applies them to Machines that it restores from the state after every entry.
//
// # Commands that change something
//
// Each makes one entry, which is printed with its number and time.
//
//	node NAME [cpu=4] [memory=8Gi] [gpu=8] [pods=110] [label=k:v] [labels=(k:v,...)] [taint=KEY] [cordoned]
//	    [noresize]  noresize: nothing is preempted on it for resizes
//	group NS/NAME [min=3] [api=x-k8s.io] [below=Evict] [annotations=(k:v,...)]
//	    A PodGroup of scheduling.k8s.io, or with api=x-k8s.io one of scheduling.x-k8s.io.
//	    Of scheduling.k8s.io only: [priority=10] [topology=LABEL] [disruption=all] [preemptionPolicy=Never]
//	    [parent=COMPOSITE] [policy=basic] [with=OTHER+OTHER] (with: Koordinator's groups) [device=CLASS] (a
//	    ResourceClaim for one device of the class comes before the group, as if it was made of a template for it).
//	    Of scheduling.x-k8s.io only: [timeout=30s] [mode=NonStrict] [asks=GPUS] (asks: minResources).
//	composite NS/NAME [min=2] [priority=10] [parent=COMPOSITE] [topology=LABEL]
//	    A CompositePodGroup; without min it has the basic policy.
//	pod NS/NAME [cpu=1] [memory=1Gi] [gpu=1] [count=N] [group=GROUP] [xgroup=GROUP] [node=NODE] [gate=GATE]
//	    [priority=10] [preemptionPolicy=Never] [scheduler=NAME] [lasts=10s] [started=-1h] [selector=k:v] [label=k:v]
//	    [labels=(k:v,...)] [annotations=(k:v,...)] [volume=CLAIM] [devices=RESOURCECLAIM]
//	    [device=CLASS] [groupdevice] [apart=LABEL from=k:v]
//	    apart: it must not be beside pods of such a label, on nodes that have the same value of LABEL.
//	    group: by spec.schedulingGroup. xgroup: by the label of scheduling.x-k8s.io. lasts: the declared duration.
//	    count: N pods, whose names are NAME followed by a number from 0 on. device: a ResourceClaim for one device of
//	    the class comes before the pod, as if it was made of a template. groupdevice: it uses its group's.
//	deviceclass NAME [gpu]            a DeviceClass of the devices whose driver has that name; gpu: pods request
//	                                  them as the resource gpu
//	claim NS/NAME device=CLASS [count=1]
//	                                  a ResourceClaim that pods may name
//	slice NODE driver=NAME [devices=8]
//	                                  the ResourceSlice of all devices of a driver on a node
//	allocated NS/POD                  the claims of a pod that has a node have their devices in the API server, too,
//	                                  and are reserved for it, or for its group; while it is being bound, also the
//	                                  claim that its bind makes
//	deallocated NS/CLAIM              a claim has given its devices back
//	apply RESOURCE                    the object that is the block's input, as YAML
//	config                            a new epoch with the KubeSchedulerConfiguration that is the block's input; a
//	                                  story without it has the default configuration
//	placed NS/POD node=NODE           another scheduler binds the pod
//	reschedule NS/POD scheduler=NAME  the pod names another scheduler, which the API forbids
//	ungate NS/POD                     the pod's scheduling gates are removed
//	resize NS/POD [cpu=2] [memory=1Gi] [gpu=1] [deferred] [infeasible]
//	                                  a pod on its node requests other amounts, or still requests its own, and the
//	                                  kubelet has not examined the request yet, has put it off, or has refused it
//	resized NS/POD                    the kubelet has given the pod the requested amounts
//	terminate NS/POD                  the pod's deletion begins
//	finish NS/POD [phase=Failed]      the pod has ended, Succeeded if no phase is named
//	delete RESOURCE [NS/]NAME         the object is gone
//	bound|failed|conflict|unknown NS/POD [node=NODE]
//	                                  the outcome of a bind
//	evict-done|evict-gone|evict-refused|evict-given-up|evict-withdrawn NS/POD [decision=N]
//	                                  the outcome of an eviction; without decision the outcome of the outstanding one
//	extender NS/POD [refuses=NODE+NODE] [scores=NODE:SCORE+NODE:SCORE] [leaves=NODE+NODE] [fails]
//	                                  the answer of the HTTP extenders that were asked about the pod; leaves: of the
//	                                  nodes where pods would be evicted for it
//	advance DURATION                  time passes, and a Tick says so
//
// # Commands that decide
//
//	decide                            one cycle
//	run                               cycles until nothing is left to decide
//	step [binds=unanswered]
//	    Takes in the block's input, whose lines are commands that change something (but not apply and config). After
//	    each line cycles follow until nothing is left to decide, and binds are answered as bound unless told
//	    otherwise, as package engine and a cluster do. Several commands on one line, separated by semicolons, are
//	    taken in together. Here advance makes a Tick only if time alone makes work. Prints how many entries there are.
//
// # Commands that ask
//
//	show                              the queue, and the pods that have nodes
//	wake                              the time at which time alone will make work
//	explain pod|group NS/NAME [at=ENTRY] [after=DURATION] [from=ENTRY] [runnersup=N] [json|history|reason]
//	    The answer of replay/explain about a pod, a gang or a composite: after an entry (at), or a time after the
//	    start (after). from: as if the log were known from behind that entry on. json, history, reason: all of it, or
//	    one part, as JSON.
//	explain pod NS/NAME trace [at=ENTRY] [from=ENTRY] [nodes=NAME+NAME] [allnodes] [json]
//	    The trace of the pod's cycles, without the rest of the answer; with json all of it.
package transcripts
