package jetstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
)

// TestTheExamplesRightsAreEnoughAndNecessary starts a server with the accounts of deploy/nats/values.yaml and TLS, and
// does as its users what schedulers and readers do. A right that is left out of the list is missed.
func TestTheExamplesRightsAreEnoughAndNecessary(t *testing.T) {
	e := newExample(t)
	if err := e.use(t, e.accounts(t, "")); err != nil {
		t.Fatalf("with the rights of the example: %v", err)
	}
	rights := e.rights(t)
	if len(rights) < 10 {
		t.Fatalf("the example has the rights %q", rights)
	}
	for _, without := range rights {
		if err := e.use(t, e.accounts(t, without)); err == nil {
			t.Errorf("%s is not needed", without)
		}
	}
}

// An example is the values of the chart, with keys of its own.
type example struct {
	dir, text         string
	scheduler, reader string // files with seeds
	ca                string
	tls               *tls.Config
}

func newExample(t *testing.T) *example {
	t.Helper()
	text, err := os.ReadFile("../../deploy/nats/values.yaml")
	must(t, err)
	e := &example{dir: t.TempDir(), text: string(text)}
	for name, file := range map[string]*string{"SCHEDULER": &e.scheduler, "READER": &e.reader} {
		key, err := nkeys.CreateUser()
		must(t, err)
		public, err := key.PublicKey()
		must(t, err)
		seed, err := key.Seed()
		must(t, err)
		*file = filepath.Join(e.dir, name)
		must(t, os.WriteFile(*file, seed, 0o600))
		if !strings.Contains(e.text, name+"_PUBLIC_NKEY") {
			t.Fatalf("the example has no user %s", name)
		}
		e.text = strings.ReplaceAll(e.text, name+"_PUBLIC_NKEY", public)
	}
	e.certify(t)
	return e
}

// certify makes a certificate for the server, which signs itself.
func (e *example) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	e.ca = filepath.Join(e.dir, "ca.crt")
	must(t, os.WriteFile(e.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	e.tls = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
	}
}

// merged is the part that the example adds to the servers' configuration.
func (e *example) merged(t *testing.T) map[string]any {
	t.Helper()
	var values struct {
		Config struct {
			Merge     map[string]any `json:"merge"`
			JetStream struct {
				Merge map[string]any `json:"merge"`
			} `json:"jetstream"`
		} `json:"config"`
	}
	must(t, yaml.Unmarshal([]byte(e.text), &values))
	if values.Config.JetStream.Merge["sync_interval"] != "always" {
		t.Error("the example's servers do not sync what they acknowledge")
	}
	return values.Config.Merge
}

// rights are all subjects that the example allows, each behind its user's place.
func (e *example) rights(t *testing.T) (all []string) {
	t.Helper()
	e.each(e.merged(t), func(right string) bool {
		all = append(all, right)
		return true
	})
	return all
}

// each calls keep with each right, and takes away those for which it returns false.
func (e *example) each(merged map[string]any, keep func(right string) bool) {
	users := merged["accounts"].(map[string]any)["ROLLCALL"].(map[string]any)["users"].([]any)
	for i, user := range users {
		permissions := user.(map[string]any)["permissions"].(map[string]any)
		for _, verb := range []string{"publish", "subscribe"} {
			of := permissions[verb].(map[string]any)
			var kept []any
			for _, subject := range of["allow"].([]any) {
				if keep([]string{"scheduler", "reader"}[i] + " " + verb + " " + subject.(string)) {
					kept = append(kept, subject)
				}
			}
			of["allow"] = kept
		}
		if permissions["allow_responses"] != nil && !keep("scheduler allow_responses") {
			delete(permissions, "allow_responses")
		}
	}
}

// accounts is the example's addition without a right.
func (e *example) accounts(t *testing.T, without string) string {
	t.Helper()
	merged := e.merged(t)
	e.each(merged, func(right string) bool { return right != without })
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // servers read no \u003e
	must(t, encoder.Encode(merged))
	return text.String()
}

// use starts a server with such accounts and does what schedulers and readers do. The error is the first that they get.
func (e *example) use(t *testing.T, accounts string) error {
	t.Helper()
	file := filepath.Join(e.dir, "nats.conf")
	must(t, os.WriteFile(file, []byte(accounts), 0o600))
	opts, err := server.ProcessConfigFile(file)
	must(t, err)
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	opts.JetStream, opts.StoreDir, opts.TLSConfig = true, t.TempDir(), e.tls
	s, err := server.NewServer(opts)
	must(t, err)
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	at := func(seed string) *jetstream.Address {
		return parse(t, "tls://"+s.Addr().String()+"/rollcall?replicas=1&patience=1s&nkey="+seed+"&ca="+e.ca)
	}
	return work(t, at(e.scheduler), at(e.reader))
}

// work performs the operations of a leader, a standby and a reader on a log.
func work(t *testing.T, scheduler, reader *jetstream.Address) error {
	t.Helper()
	log, err := scheduler.Create(t.Context(), eventlog.Origin{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	entry := eventlog.Entry{Seq: 1, Epoch: 1, Time: 1, Payload: &eventlog.Tick{}}
	if err := log.Append(t.Context(), 0, []eventlog.Entry{entry}); err != nil {
		return err
	}
	if err := log.Announce("leader"); err != nil {
		return err
	}
	bucket := log.Bucket()
	for _, name := range []string{"old", "new"} {
		if err := bucket.Put(t.Context(), name, []byte(name), nil); err != nil {
			return err
		}
	}
	if err := bucket.Remove(t.Context(), "old"); err != nil {
		return err
	}
	for _, at := range []*jetstream.Address{scheduler, reader} {
		follower, err := at.OpenReadOnly(t.Context())
		if err != nil {
			return err
		}
		for _, err := range follower.Records(t.Context(), 1) {
			if err != nil {
				return err
			}
		}
		if names, err := follower.Bucket().List(t.Context()); err != nil || len(names) != 1 {
			return fmt.Errorf("the bucket has %q: %w", names, err)
		}
		if _, _, err := follower.Bucket().Get(t.Context(), "new", func([]byte) int64 { return 3 }); err != nil {
			return err
		}
		if at == scheduler {
			if err := abandoned(t, log, follower); err != nil {
				return err
			}
		}
		if err := follower.Close(); err != nil {
			return err
		}
	}
	again, err := scheduler.Open(t.Context())
	if err != nil {
		return err
	}
	return again.Close()
}

// abandoned closes the leader's log while a standby waits for that.
func abandoned(t *testing.T, log, follower *jetstream.Log) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := follower.Abandoned(ctx)
		gone <- err
	}()
	time.Sleep(500 * time.Millisecond)
	if err := log.Close(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return <-gone
}
