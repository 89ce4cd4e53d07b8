// Package accountant reads only the API server's audit log, and finds the errors that a gang scheduler must never
// make: to bind a gang in part, to put more on a node than it can hold, to bind a pod twice. With the output of
// "rollcall log cat" it also finds binds without a decision before them. It shares no code with the product.
//
// A gang may be bound in part while its binds are in progress. So gangs are counted at quiescent points only. A test
// makes one with Look, when no bind should be in progress. Look lists the cluster's pods as the user "accountant". The
// list is in the audit log and is the evidence.
//
// Requests overlap, and the audit log has no order of their effects. The findings are true in any order: a pod takes
// room from the answer to its bind until the request that ends it.
package accountant

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// event is the part of an Event of audit.k8s.io/v1 that the accountant reads.
type event struct {
	AuditID string    `json:"auditID"`
	Stage   string    `json:"stage"`
	Verb    string    `json:"verb"`
	Begun   time.Time `json:"requestReceivedTimestamp"`
	Ended   time.Time `json:"stageTimestamp"`
	User    struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		UID         string `json:"uid"`
	} `json:"objectRef"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Request  json.RawMessage `json:"requestObject"`
	Response json.RawMessage `json:"responseObject"`
}

// resource is the object's kind as in requests: "pods/binding", "podgroups.scheduling.x-k8s.io".
func (e *event) resource() string {
	r := e.Object.Resource
	if e.Object.Subresource != "" {
		r += "/" + e.Object.Subresource
	}
	if e.Object.Group != "" {
		r += "." + e.Object.Group
	}
	return r
}

func (e *event) name() string { return e.Object.Namespace + "/" + e.Object.Name }

// done reports whether the answer says that the request did what it asked for.
func (e *event) done() bool { return e.Stage == "ResponseComplete" && e.Status.Code/100 == 2 }

// span is the time from the arrival of a request to its answer. Its effect happened in between.
type span struct{ begun, ended time.Time }

// parse reads a line. If the API server was killed while it wrote a line, the next event is behind its beginning.
func parse(text []byte) (*event, error) {
	e := &event{}
	err := json.Unmarshal(text, e)
	if err == nil {
		return e, nil
	}
	at := bytes.LastIndex(text, []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1"`))
	if e = new(event); at > 0 && json.Unmarshal(text[at:], e) == nil {
		return e, nil
	}
	return &event{}, err
}

// readEvents reads an audit log and calls f for each request, in the order of the log, which is the order of the
// answers. A request without an answer, because the API server died, comes at the end. The last line may be torn.
func readEvents(r io.Reader, f func(*event) error) error {
	open := map[string]*event{}
	var order []string
	in := bufio.NewReaderSize(r, 1<<20)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read the audit log: line %d: %w", line, err)
		}
		last := err == io.EOF
		if len(bytes.TrimSpace(text)) > 0 {
			e, err := parse(text)
			if err != nil && !last {
				return fmt.Errorf("read the audit log: line %d: %w", line, err)
			}
			switch {
			case e.Stage == "RequestReceived":
				open[e.AuditID] = e
				order = append(order, e.AuditID)
			case e.Stage == "ResponseComplete" || e.Stage == "Panic":
				delete(open, e.AuditID)
				if err := f(e); err != nil {
					return fmt.Errorf("the audit log's line %d: %w", line, err)
				}
			}
		}
		if last {
			break
		}
	}
	for _, id := range order {
		if e := open[id]; e != nil {
			if err := f(e); err != nil {
				return fmt.Errorf("the audit log's request %s: %w", id, err)
			}
		}
	}
	return nil
}
