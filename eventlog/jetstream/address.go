package jetstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// DefaultReplicas is the number of servers that keep a stream unless an Address says otherwise: acknowledged
	// entries survive the loss of one of three.
	DefaultReplicas = 3
	// DefaultPatience is the time to wait for servers that do not answer: longer than the election of a leader, and
	// than the restart of a server.
	DefaultPatience = 30 * time.Second
)

// An Address is the address of a log in NATS, with the credentials for its servers. Parse makes it. Its printed form
// has no secret.
type Address struct {
	// Servers are hosts with their ports.
	Servers []string
	// TLS says that servers without TLS are refused.
	TLS bool
	// Stream is the stream's name.
	Stream string
	// Replicas is the number of servers that keep the stream.
	Replicas int
	// Domain is the JetStream domain; "" for the servers' own.
	Domain string
	// User and Password, or Token, or the files Creds (JWT and seed) or NKey (seed), are the user's credentials.
	User, Password, Token, Creds, NKey string
	// CA, Cert and Key are PEM files: the trusted authorities, and the user's certificate.
	CA, Cert, Key string
	// Patience is the time to wait for servers that do not answer, during an append or a read.
	Patience time.Duration

	dialer func(role string) nats.CustomDialer // in tests; nil for the network
}

// String returns the address without its secrets.
func (a *Address) String() string {
	scheme := "nats"
	if a.TLS {
		scheme = "tls"
	}
	return scheme + "://" + strings.Join(a.Servers, ",") + "/" + a.Stream
}

// Is reports whether a name is the name of a log in NATS.
func Is(name string) bool {
	scheme, _, is := cutScheme(name)
	return is && (scheme == "nats" || scheme == "tls")
}

// cutScheme returns the scheme of a URL in small letters, and the rest after the ://.
func cutScheme(name string) (scheme, rest string, is bool) {
	scheme, rest, is = strings.Cut(name, "://")
	return strings.ToLower(scheme), rest, is
}

// Redact returns a URL, such as the name of a log in NATS, without its possible secrets, whether it can be parsed or
// not. If there is an @ after the first ?, a part of a password may come before it, and Redact returns only the
// scheme.
func Redact(name string) string {
	scheme, rest, _ := cutScheme(name)
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return scheme + "://"
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + "://" + rest
}

// Form is the form of the name of a log in NATS.
const Form = "nats://HOST:PORT/STREAM or tls://HOST:PORT/STREAM, with several HOST:PORT between commas, " +
	"USER:PASSWORD@ or TOKEN@ before the first, and behind a ? any of replicas=N, creds=FILE, nkey=FILE, " +
	"user=NAME, password=TEXT, ca=FILE, cert=FILE, key=FILE, domain=NAME, patience=30s"

// Parse parses the name of a log in NATS (Form). Its error repeats no possible secret.
func Parse(name string) (*Address, error) {
	a, err := parse(name)
	if _, query, _ := strings.Cut(name, "?"); err != nil && strings.Contains(query, "@") {
		err = fmt.Errorf("%w (a ? in a password is written %%3F)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want %s", Redact(name), err, Form)
	}
	return a, nil
}

func parse(name string) (*Address, error) {
	scheme, rest, _ := cutScheme(name)
	a := &Address{TLS: scheme == "tls", Replicas: DefaultReplicas, Patience: DefaultPatience}
	if strings.Contains(rest, "#") {
		return nil, errors.New("it has a fragment (#)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if err := a.setUser(rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	hosts, stream, _ := strings.Cut(rest, "/")
	if err := a.setServers(hosts); err != nil {
		return nil, err
	}
	if a.Stream = stream; stream == "" {
		return nil, errors.New("it names no stream")
	}
	for _, r := range stream {
		if r <= ' ' || r > '~' || strings.ContainsRune(`.*>/\%`, r) {
			return nil, fmt.Errorf("a stream's name must not contain %q", r)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what is behind the ? cannot be read")
	}
	for key, value := range values { // any order: each sets a field of its own
		if err := a.set(key, value); err != nil {
			return nil, err
		}
	}
	return a, a.check()
}

// setUser sets the user from the text before the last @.
func (a *Address) setUser(info string) error {
	if strings.Contains(info, "@") {
		return errors.New("it has more than one @: give user and password once, before the first host, with %40 for " +
			"an @ in them")
	}
	user, password, both := strings.Cut(info, ":")
	user, err := url.PathUnescape(user)
	if err != nil {
		return errors.New("the user before the @ cannot be read")
	}
	if password, err = url.PathUnescape(password); err != nil {
		return errors.New("the password before the @ cannot be read")
	}
	if both {
		a.User, a.Password = user, password
	} else {
		a.Token = user
	}
	return nil
}

// setServers sets the servers from the hosts.
func (a *Address) setServers(hosts string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port, err = net.SplitHostPort(host + ":4222")
		}
		if err != nil || name == "" || strings.ContainsAny(name, " %") {
			return errors.New("it names no server")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("a port is none of 1 to 65535")
		}
		a.Servers = append(a.Servers, net.JoinHostPort(name, port))
	}
	return nil
}

// set sets one parameter. The error names only a known parameter: another may be the end of a password.
func (a *Address) set(key string, values []string) (err error) {
	texts := map[string]*string{
		"creds": &a.Creds, "nkey": &a.NKey, "user": &a.User, "password": &a.Password, "ca": &a.CA, "cert": &a.Cert,
		"key": &a.Key, "domain": &a.Domain,
	}
	text, value := texts[key], values[0]
	switch {
	case text == nil && key != "replicas" && key != "patience":
		return errors.New("behind the ? is a parameter that there is not")
	case len(values) > 1 || text != nil && *text != "":
		return fmt.Errorf("%s is said twice", key)
	case text != nil && value == "":
		return fmt.Errorf("%s is empty", key)
	case text != nil:
		*text = value
	case key == "replicas":
		if a.Replicas, err = strconv.Atoi(value); err != nil || a.Replicas < 1 || a.Replicas > 5 {
			return errors.New("replicas is none of 1 to 5")
		}
	case key == "patience":
		if a.Patience, err = time.ParseDuration(value); err != nil || a.Patience <= 0 {
			return errors.New("patience is no time above zero")
		}
	}
	return nil
}

// check returns an error if the parameters contradict each other.
func (a *Address) check() error {
	ways := 0
	for _, way := range []string{a.User, a.Token, a.Creds, a.NKey} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("of user, token, creds and nkey one says who asks")
	case a.Password != "" && a.User == "":
		return errors.New("there is a password without a user")
	case (a.Cert == "") != (a.Key == ""):
		return errors.New("cert and key go together")
	}
	return nil
}
