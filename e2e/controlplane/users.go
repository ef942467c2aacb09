package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// user is someone the API server knows by a token.
type user struct {
	name, groups string
	file         string // the kubeconfig
}

const mastersGroup = "system:masters"

var (
	adminUser   = user{"admin", mastersGroup, "kubeconfig.yaml"}
	managerUser = user{"system:kube-controller-manager", "", "kube-controller-manager.yaml"}
	kwokUser    = user{"system:kwok", mastersGroup, "kwok.yaml"}
	// The others have no rights until a test grants some.
	users = []user{
		adminUser, managerUser, kwokUser,
		{"alice", "", "kubeconfig-alice.yaml"},
		{"bob", "", "kubeconfig-bob.yaml"},
		{"carol", "", "kubeconfig-carol.yaml"},
	}
)

const tokenFile = "tokens.csv"

// writeUsers writes a token for every user to dir and returns the tokens by name.
func writeUsers(dir string) (map[string]string, error) {
	tokens := make(map[string]string, len(users))
	var csv strings.Builder
	for i, u := range users {
		tokens[u.name] = rand.Text()
		fmt.Fprintf(&csv, "%s,%s,%d,%q\n", tokens[u.name], u.name, i, u.groups)
	}
	return tokens, os.WriteFile(filepath.Join(dir, tokenFile), []byte(csv.String()), 0o600)
}

// writeKubeconfigs writes every user's kubeconfig, which needs no other file.
func writeKubeconfigs(dir, server string, ca []byte, tokens map[string]string) error {
	for _, u := range users {
		config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: controlplane
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    token: %[4]s
contexts:
- name: %[3]s
  context:
    cluster: controlplane
    user: %[3]s
current-context: %[3]s
`, server, base64.StdEncoding.EncodeToString(ca), u.name, tokens[u.name])
		if err := os.WriteFile(filepath.Join(dir, u.file), []byte(config), 0o600); err != nil {
			return err
		}
	}
	return nil
}
