package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the files that writePKI makes.
const (
	caFile             = "ca.crt"
	serverCertFile     = "apiserver.crt"
	serverKeyFile      = "apiserver.key"
	serviceAccountKey  = "service-account.key"
	certificateForDays = 365
)

// writePKI writes to dir a certificate authority's certificate, the API server's
// certificate and key for loopback, and the key that signs service account tokens.
// The authority's own key is not kept.
func writePKI(dir string) (ca []byte, err error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "controlplane-ca"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(0, 0, certificateForDays),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	serverKey, err := writeKey(filepath.Join(dir, serverKeyFile))
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), serviceIP},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	if _, err := writeKey(filepath.Join(dir, serviceAccountKey)); err != nil {
		return nil, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	if err := os.WriteFile(filepath.Join(dir, caFile), ca, 0o600); err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serverDER})
	return ca, os.WriteFile(filepath.Join(dir, serverCertFile), cert, 0o600)
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return key, os.WriteFile(path, block, 0o600)
}
