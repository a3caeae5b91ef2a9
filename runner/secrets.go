package runner

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

// checkSecrets refuses what the door can't keep to, and gives each secret its
// placeholder.
func (j *run) checkSecrets() error {
	if len(j.spec.Secrets) == 0 {
		return nil
	}
	door, ok := j.runner.Door.(SecretDoor)
	if !ok {
		return fault.New("the way out of steps with a network can't use secrets", "leave the secrets out").
			WithCode(string(job.ReasonPolicyUnsupported))
	}
	if err := door.CheckSecrets(j.spec.Secrets, j.spec.Allow); err != nil {
		return &fault.Error{
			What: "the job's secrets", Err: err, Hint: fault.Hint(err),
			Code: cmp.Or(fault.Code(err), string(job.ReasonRejected)),
		}
	}
	for _, s := range j.spec.Secrets {
		b, err := secret.Bind(s)
		if err != nil { // the door has read it already
			return err
		}
		j.secrets = append(j.secrets, secret.Bound{Binding: b, Placeholder: secret.Mint(), Value: s.Value})
	}
	return nil
}

func (j *run) opening(i int) Opening {
	o := Opening{Job: j.spec.ID, Step: i, Allow: j.spec.Allow, Secrets: j.secrets}
	if e := j.result.Egress; e != nil {
		o.Moved = e.Sent + e.Received
	}
	return o
}

// forgetSecrets drops the values once no later step has a network.
func (j *run) forgetSecrets(i int) {
	if i+1 == len(j.spec.Steps) || !hasNetwork(j.spec.Steps[i+1]) {
		j.secrets, j.spec.Secrets = nil, nil
	}
}

// trustDir is where steps with secrets find whom to trust: a bundle of the sandbox's
// own roots and the passage's authority, and the latter alone.
const (
	trustDir   = "/run/quavon"
	bundleFile = "bundle.pem"
	caFile     = "authority.pem"
	aptFile    = "apt.conf"
)

// secretEnv tells a step where its placeholders are, and the usual tools whom to trust.
// Node adds to its own roots, the others replace theirs.
func (j *run) secretEnv(st job.Step) []string {
	if len(j.secrets) == 0 || !hasNetwork(st) {
		return nil
	}
	env := []string{
		"NODE_EXTRA_CA_CERTS=" + path.Join(trustDir, caFile), "DENO_CERT=" + path.Join(trustDir, caFile),
		"APT_CONFIG=" + path.Join(trustDir, aptFile), // apt has no variable of its own for it
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CARGO_HTTP_CAINFO",
		"AWS_CA_BUNDLE", "npm_config_cafile", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		env = append(env, name+"="+path.Join(trustDir, bundleFile))
	}
	for i, s := range j.spec.Secrets {
		env = append(env, s.Name+"="+j.secrets[i].Placeholder)
	}
	return env
}

// trust puts the passage's authority where the step's tools look.
func (j *run) trust(ctx context.Context, p Passage) error {
	t, ok := p.(Trusted)
	if !ok || len(j.secrets) == 0 {
		return nil
	}
	if j.roots == nil { // before anything of the job has run
		j.roots = j.readRoots(ctx)
	}
	authority := t.Authority()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range map[string][]byte{
		caFile: authority, bundleFile: append(bytes.Clone(j.roots), authority...),
		aptFile: fmt.Appendf(nil, "Acquire::https::CAInfo %q;\n", path.Join(trustDir, bundleFile)),
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return j.client.Put(ctx, trustDir, 0, 0, &b)
}

// rootFiles are where distributions keep their bundle of roots.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// maxRoots bounds a bundle.
const maxRoots = 8 << 20

// readRoots reads the sandbox's roots, or this host's where the sandbox has none: tools
// that bring their own would have no others.
func (j *run) readRoots(ctx context.Context) []byte {
	for _, name := range rootFiles {
		if b, err := j.readFile(ctx, name); err == nil && len(b) > 0 {
			return append(b, '\n')
		}
	}
	for _, name := range rootFiles {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
			return append(b, '\n')
		}
	}
	return []byte{}
}

// readFile reads a file of the sandbox; a link isn't followed.
func (j *run) readFile(ctx context.Context, name string) (content []byte, err error) {
	get := agent.GetRequest{Dir: filepath.Dir(name), Globs: []string{filepath.Base(name)}, MaxBytes: maxRoots, MaxEntries: 4}
	err = through(
		func(w io.Writer) error { return j.client.Get(ctx, get, w) },
		func(r io.Reader) error {
			t := tar.NewReader(r)
			h, err := t.Next()
			if err != nil {
				return err
			}
			if h.Typeflag != tar.TypeReg {
				return errors.New("it is no file")
			}
			content, err = io.ReadAll(io.LimitReader(t, maxRoots))
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			return err
		},
	)
	return content, err
}
