package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/client-go/tools/clientcmd"
)

// authority signs the certificates of one cluster: of its API server, of its users, of a proxy before it.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// pem is the certificate as clients read it.
	pem []byte
}

// Identity is a certificate with its key, in PEM.
type Identity struct{ Cert, Key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rollcall-e2e"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// sign makes a certificate with which a program may be a client, as a user, and a server at 127.0.0.1.
func (a *authority) sign(user string, groups []string) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make a key for %s: %w", user, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return Identity{}, fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Identity{}, fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("make a certificate for %s: %w", user, err)
	}
	return Identity{Cert: encode("CERTIFICATE", der), Key: encode("EC PRIVATE KEY", keyDER)}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeCredentials puts what the servers read into the cluster's folder.
func (c *Cluster) writeCredentials() error {
	server, err := c.authority.sign("kube-apiserver", nil)
	if err != nil {
		return err
	}
	accounts, err := c.authority.sign("service-accounts", nil)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"ca.crt": c.authority.pem, "server.crt": server.Cert, "server.key": server.Key, "accounts.key": accounts.Key,
	} {
		if err := os.WriteFile(c.path(name), text, 0o600); err != nil {
			return fmt.Errorf("write the cluster's credentials: %w", err)
		}
	}
	return nil
}

// Identity makes the credentials of a user who belongs to groups. Members of "system:masters" may do everything.
func (c *Cluster) Identity(user string, groups ...string) (Identity, error) {
	return c.authority.sign(user, groups)
}

// KubeconfigFor writes a kubeconfig for a user, and returns its path. server is the URL in it: by default the API
// server's, or the URL of a proxy.
func (c *Cluster) KubeconfigFor(server, user string, groups ...string) (string, error) {
	f, err := os.CreateTemp(c.dir, "kubeconfig-*")
	if err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return f.Name(), c.writeKubeconfig(f.Name(), server, user, groups)
}

// Kubeconfig is the path of a kubeconfig for a user who may do everything.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

func (c *Cluster) writeKubeconfig(file, server, user string, groups []string) error {
	id, err := c.authority.sign(user, groups)
	if err != nil {
		return err
	}
	if server == "" {
		server = c.URL()
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.authority.pem}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: id.Cert, ClientKeyData: id.Key}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: user}
	config.CurrentContext = "e2e"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }
