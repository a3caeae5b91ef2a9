package compose

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/templates"
)

// Owner runs our services in their containers, and so has to own the files that are
// mounted there.
const Owner = phase.ServiceUser

// Files below the installation's directory.
const (
	usersFile = "valkey_users.acl"
	runDir    = "run/valkey"
	// SocketFile is where programs of the host reach Valkey.
	SocketFile = runDir + "/valkey.sock"
)

// Secrets that services have as files, each with those that have it.
var mounted = map[string][]string{
	usersFile:             {Valkey},
	"valkey_sandbox_url":  {Runner},
	"valkey_egress_url":   {Egress},
	"sandbox_signing_key": {Runner},
}

func (s *stack) secret(name string) string { return filepath.Join(s.Target.Secrets(), name) }

// users is Valkey's list of users. The user default is switched off unless there is a
// password for it, which other parts of an installation bring.
func (s *stack) users() ([]byte, error) {
	text := templates.ValkeyUsers
	for mark, name := range map[string]string{
		"SANDBOX": "valkey_sandbox_password", "EGRESS": "valkey_egress_password", "DEFAULT": "valkey_password",
	} {
		password, err := os.ReadFile(s.secret(name))
		password = bytes.TrimRight(password, "\r\n")
		switch {
		case errors.Is(err, fs.ErrNotExist) && mark == "DEFAULT":
			text = strings.Replace(text, "user default reset on #@DEFAULT_PASSWORD_SHA256@ ~* &* +@all", "user default reset off", 1)
			continue
		case err != nil:
			return nil, fault.Wrap(err, "read the password "+name, "run `quavon install --from-phase secrets`")
		case len(password) == 0:
			return nil, fault.New("the password "+name+" is empty", "remove "+s.secret(name)+" and run `quavon install` again")
		}
		sum := sha256.Sum256(password)
		text = strings.ReplaceAll(text, "@"+mark+"_PASSWORD_SHA256@", hex.EncodeToString(sum[:]))
	}
	if strings.Contains(text, "_SHA256@") {
		return nil, errors.New("a password of Valkey's users is not known")
	}
	return []byte(text), nil
}

// values are what the compose file's template has.
type values struct {
	Images  map[string]string
	Inputs  map[string]string
	Socket  string
	Backend string
	// MachineID says that the host has a name to tell it from others.
	MachineID bool
}

// render makes the compose file. What a service only reads from a mounted file shows
// in its label, so that compose replaces it when that changes.
func (s *stack) render(images map[string]string, l *lock.File, users []byte) ([]byte, error) {
	locked, err := l.Encode()
	if err != nil {
		return nil, err
	}
	v := values{Images: images, Inputs: map[string]string{}, Socket: s.Target.Socket, Backend: s.Target.Backend}
	for service, key := range map[string]string{Valkey: "valkey", Guard: "guard", Runner: "runner", Egress: "egress"} {
		parts := [][]byte{}
		if service == Guard || service == Runner {
			parts = append(parts, locked)
		}
		if service == Valkey {
			parts = append(parts, users)
		}
		secrets, err := s.secretsOf(service)
		if err != nil {
			return nil, err
		}
		v.Inputs[key] = digest(append(parts, secrets...)...)
	}
	_, err = os.Stat("/etc/machine-id")
	v.MachineID = err == nil
	t, err := template.New("compose.yaml").Option("missingkey=error").Parse(templates.Compose)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, v)
	return b.Bytes(), err
}

// secretsOf reads the secrets that a service has, but for what is rendered. They are
// random, so a digest of them tells nothing.
func (s *stack) secretsOf(service string) ([][]byte, error) {
	var out [][]byte
	for _, name := range []string{"sandbox_signing_key", "valkey_egress_url", "valkey_sandbox_url"} {
		for _, of := range mounted[name] {
			if of != service {
				continue
			}
			raw, err := os.ReadFile(s.secret(name))
			if err != nil {
				return nil, fault.Wrap(err, "read the secret "+name, "run `quavon install --from-phase secrets`")
			}
			out = append(out, raw)
		}
	}
	return out, nil
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256(p)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// imageIDs finds the services' images in the engine.
func (s *stack) imageIDs(ctx context.Context, l *lock.File) (map[string]string, error) {
	e, err := s.engine(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range []string{ImageValkey, ImageQuavon} {
		if out[name], err = e.imageID(ctx, l, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
