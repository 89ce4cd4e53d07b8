package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// streamPassword is the password of the server's user. No command may print it.
const streamPassword = "s3cr3t-of-the-stream"

// startStreams starts a NATS server with JetStream, of the users good and reader, and returns its address.
func startStreams(t *testing.T, change func(*server.Options)) string {
	t.Helper()
	account := server.NewAccount("A")
	subjects := func(s ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: s} }
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Accounts: []*server.Account{account},
		Users: []*server.User{
			{Username: "good", Password: streamPassword, Account: account},
			{Username: "reader", Password: streamPassword, Account: account, Permissions: &server.Permissions{
				Publish: subjects("$JS.API.STREAM.INFO.jobs", "$JS.API.STREAM.MSG.GET.jobs",
					"$JS.API.DIRECT.GET.jobs"),
				Subscribe: subjects("_INBOX.>"),
			}},
		},
	}
	if change != nil {
		change(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	known, err := s.LookupAccount("A")
	if err == nil {
		err = known.EnableJetStream(nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr().String()
}

// saysWithoutPassword is wants for a command whose output may not have the password either.
func saysWithoutPassword(t *testing.T, code int, text string, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, got := ran(t, args...)
	switch all := stdout + stderr; {
	case strings.Contains(all, streamPassword):
		t.Errorf("rollcall %q prints the password:\n%s", args, all)
	case got != code || !strings.Contains(all, text):
		t.Errorf("rollcall %q: exit code %d, want %d, with %q:\n%s", args, got, code, text, all)
	}
	return stdout
}

// threePods is a workload of three pods, in a file.
func threePods(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "work.swf")
	const job = "1 0 -1 10 3 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
	if err := os.WriteFile(path, []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestALogInAStreamIsTakenByEveryCommand names a log in a stream, with a password, wherever a log may be named.
func TestALogInAStreamIsTakenByEveryCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	host := startStreams(t, nil)
	log := "nats://good:" + streamPassword + "@" + host + "/jobs?replicas=1"
	shown := "nats://" + host + "/jobs"
	simulate := []string{"simulate", "--nodes", "4x2cpu", "--workload", threePods(t), "--log"}
	copied := filepath.Join(dir, "copy")
	says := func(code int, text string, args ...string) string {
		t.Helper()
		return saysWithoutPassword(t, code, text, args...)
	}
	says(exitDone, "3 completed", append(simulate, log)...)
	says(exitUsage, shown+" is there already", append(simulate, log)...)
	says(exitDone, shown+": going on behind entry", append(simulate, log, "--resume")...)
	says(exitDone, "messages: ", "log", "info", log)
	says(exitDone, "identical", "replay", log)
	says(exitDone, "placed on", "explain", log, "pod", "default/job-1-0")
	says(exitDone, "0 in VIOLATION", "audit", "order", log)
	says(exitDone, "rollcall-snapshots-jobs", "log", "snapshot", log)
	says(exitDone, "\nwhole\n", "log", "verify", log)
	says(exitDone, "", "log", "export", log, "--out", filepath.Join(dir, "jobs.bundle"))
	says(exitDone, "of them new", "log", "copy", log, copied)
	says(exitDone, "0 of them new", "log", "copy", copied, log)
	if there, here := says(exitDone, "", "log", "cat", log), says(exitDone, "", "log", "cat", copied); there != here {
		t.Errorf("the copy has other entries:\n%s\n%s", here, there)
	}
	says(exitDone, "", "log", "trim", log, "--before", "1h", "--copy", copied)
	for _, args := range [][]string{
		{"log", "archive", log, "--before", "3", "--to", dir}, {"log", "import", "--log", log, copied},
		{"run", "--log", log, "--archive", dir},
	} {
		says(exitUsage, shown, args...)
	}
}

// TestWhatIsWrongWithAStreamIsSaid makes the mistakes that are easily made with the name of a stream and its servers.
func TestWhatIsWrongWithAStreamIsSaid(t *testing.T) {
	t.Parallel()
	host := startStreams(t, nil)
	secured := startStreams(t, func(o *server.Options) { o.TLSConfig = ownTLS(t) })
	small := startStreams(t, func(o *server.Options) { o.MaxPayload = 32 << 10 })
	as := func(user, host, rest string) string { return "nats://" + user + "@" + host + "/" + rest }
	good := "good:" + streamPassword
	saysWithoutPassword(t, exitDone, "3 completed", "simulate", "--nodes", "4x2cpu", "--workload", threePods(t),
		"--log", as(good, host, "jobs?replicas=1"))
	for name, c := range map[string]struct {
		code      int
		log, says string
	}{
		"no server":           {exitFailed, "nats://127.0.0.1:1/jobs", "no server answers"},
		"nobody":              {exitFailed, "nats://" + host + "/jobs", "the server refuses who asks"},
		"a wrong password":    {exitFailed, as(good+"x", host, "jobs"), "the server refuses who asks"},
		"no such stream":      {exitFailed, as(good, host, "others"), "there is no such stream"},
		"no rights":           {exitFailed, as("reader:"+streamPassword, host, "others"), "denies its user to publish"},
		"no stream":           {exitUsage, as(good, host, ""), "it names no stream"},
		"no such parameter":   {exitUsage, as(good, host, "jobs?replica=1"), "a parameter that there is not"},
		"no such file":        {exitFailed, as(good, host, "jobs?ca=/none.pem"), "/none.pem"},
		"no TLS":              {exitFailed, "tls://" + good + "@" + host + "/jobs", "write nats:// in place of tls://"},
		"an unknown signer":   {exitFailed, "tls://" + good + "@" + secured + "/jobs", "ca=FILE"},
		"too small a payload": {exitFailed, as(good, small, "jobs"), "there is no such stream"},
	} {
		t.Run(name, func(t *testing.T) { saysWithoutPassword(t, c.code, c.says, "log", "info", c.log) })
	}
	// These faults are found when a log is made.
	for name, c := range map[string]struct{ log, says string }{
		"more replicas than servers": {as(good, host, "new"), "?replicas=1"},
		"too small a payload":        {as(good, small, "new?replicas=1"), "max_payload"},
		"no rights":                  {as("reader:"+streamPassword, host, "jobs2?replicas=1"), "denies its user"},
	} {
		t.Run("made: "+name, func(t *testing.T) {
			saysWithoutPassword(t, exitFailed, c.says, "simulate", "--nodes", "4x2cpu", "--workload", threePods(t),
				"--log", c.log)
		})
	}
}

// ownTLS is the configuration of a server whose certificate no client trusts.
func ownTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
