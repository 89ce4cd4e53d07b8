package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// someKey is a key of etcd, in base64, that the API server does not read: "/rollcall-e2e".
const someKey = "L3JvbGxjYWxsLWUyZQ=="

// Compact has etcd forget every revision before the newest one: a watch that wants to continue from an older one is
// answered that it was compacted. It writes a key of its own first, so that no watch is up to date by then.
func (c *Cluster) Compact(ctx context.Context) error {
	var written struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := c.askEtcd(ctx, "put", map[string]any{"key": someKey, "value": someKey}, &written); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	err := c.askEtcd(ctx, "compaction", map[string]any{"revision": written.Header.Revision, "physical": true}, nil)
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// askEtcd calls a method of etcd's key-value service by its JSON gateway.
func (c *Cluster) askEtcd(ctx context.Context, method string, request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL()+"/v3/kv/"+method, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("etcd answers %s to %s: %s", resp.Status, method, body)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(body, answer)
}
