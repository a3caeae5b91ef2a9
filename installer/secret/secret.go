// Package secret is the phase that makes an installation's secrets, each once. What is
// there is checked and never made anew: jobs on their way are sealed with it.
package secret

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// SigningKey is the file of the root key.
const SigningKey = "sandbox_signing_key"

// users are Valkey's, by the beginning of their files' names.
var users = []string{"sandbox", "egress"}

// address is where services of the compose file reach Valkey.
const address = "valkey:6379"

// Secrets is the phase.
type Secrets struct{ Target *phase.Target }

var _ phase.Phase = (*Secrets)(nil)

// Name implements phase.Phase.
func (*Secrets) Name() string { return phase.Secrets }

// maxSize bounds a secret's file, in bytes.
const maxSize = 64 << 10

// Plan implements phase.Phase.
func (s *Secrets) Plan(context.Context) ([]phase.Change, error) {
	missing, err := s.missing()
	if err != nil {
		return nil, err
	}
	var changes []phase.Change
	for _, m := range missing {
		changes = append(changes, phase.Change{Action: phase.Create, Target: s.path(m.name), Summary: m.what})
	}
	return changes, nil
}

// Apply implements phase.Phase.
func (s *Secrets) Apply(_ context.Context, tx phase.Tx, _ phase.Reporter) error {
	missing, err := s.missing()
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := tx.MkdirAll(s.Target.Secrets(), 0o700); err != nil {
		return err
	}
	for _, m := range missing {
		if err := tx.WriteFile(s.path(m.name), []byte(m.text+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Undo implements phase.Phase.
func (*Secrets) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }

func (s *Secrets) path(name string) string { return filepath.Join(s.Target.Secrets(), name) }

// missing is a secret that is to be made.
type missing struct{ name, what, text string }

// missing checks what is there, and makes up the rest in memory.
func (s *Secrets) missing() ([]missing, error) {
	if err := s.checkDir(); err != nil {
		return nil, err
	}
	var out []missing
	key, err := s.read(SigningKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		raw := make([]byte, envelope.KeySize)
		_, _ = rand.Read(raw) // never fails
		out = append(out, missing{SigningKey, "key that signs and seals jobs", base64.StdEncoding.EncodeToString(raw)})
	case err != nil:
		return nil, err
	default:
		if _, err := envelope.ParseKeyring([]byte(key)); err != nil {
			return nil, s.bad(SigningKey, err)
		}
	}
	for _, user := range users {
		more, err := s.user(user)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// user checks or makes a password and the URL with it.
func (s *Secrets) user(user string) ([]missing, error) {
	passwordName, urlName := "valkey_"+user+"_password", "valkey_"+user+"_url"
	password, noPassword := s.read(passwordName)
	text, noURL := s.read(urlName)
	for _, err := range []error{noPassword, noURL} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if noPassword == nil {
		if err := plain(password); err != nil {
			return nil, s.bad(passwordName, err)
		}
	}
	var out []missing
	if noURL == nil {
		u, err := url.Parse(text)
		inURL, has := "", false
		if err == nil && u.User != nil {
			inURL, has = u.User.Password()
		}
		switch {
		case err != nil || !has || u.Host == "":
			// Parse's own words show the URL.
			return nil, s.bad(urlName, errors.New("it is no URL with a user and a password"))
		case u.User.Username() != user:
			return nil, s.bad(urlName, fmt.Errorf("its user is %q instead of %q", u.User.Username(), user))
		case noPassword == nil && inURL != password:
			return nil, s.bad(urlName, fmt.Errorf("its password isn't the one in %s", passwordName))
		case noPassword != nil:
			what := "password of Valkey's user " + user + ", as its URL has it"
			return append(out, missing{passwordName, what, inURL}), nil //nolint:nilerr // the URL has it
		}
	}
	if noPassword != nil {
		password = rand.Text() + rand.Text()
		out = append(out, missing{passwordName, "password of Valkey's user " + user, password})
	}
	if noURL != nil {
		u := url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: address}
		out = append(out, missing{urlName, "URL of Valkey for the user " + user, u.String()})
	}
	return out, nil
}

// minPassword is the shortest that is taken, in characters.
const minPassword = 16

func plain(password string) error {
	if len(password) < minPassword {
		return fmt.Errorf("it has less than %d characters", minPassword)
	}
	if strings.ContainsFunc(password, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("it has characters other than letters, digits and signs")
	}
	return nil
}

// checkDir refuses a directory into which others can look.
func (s *Secrets) checkDir() error {
	dir := s.Target.Secrets()
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fault.New(dir+" is no directory", "move it away")
	case info.Mode().Perm()&0o077 != 0:
		return fault.New(fmt.Sprintf("others can look into %s (mode %04o)", dir, info.Mode().Perm()), "chmod 700 "+dir)
	}
	return ownedBy(dir, info, os.Geteuid())
}

// ownedBy refuses what belongs to somebody who isn't among users: the mode is theirs to change.
func ownedBy(path string, info fs.FileInfo, users ...int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 || slices.Contains(users, int(st.Uid)) {
		return nil
	}
	return fault.New(fmt.Sprintf("%s belongs to the user %d", path, st.Uid), fmt.Sprintf("chown %d %s", os.Geteuid(), path))
}

// read is a secret without the line's end. Nobody else may be able to read it.
func (s *Secrets) read(name string) (string, error) {
	path := s.path(name)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxSize:
		return "", s.bad(name, errors.New("it is no small file"))
	case info.Mode().Perm()&0o077 != 0:
		return "", fault.New(fmt.Sprintf("others can read %s (mode %04o)", path, info.Mode().Perm()), "chmod 600 "+path)
	}
	if err := ownedBy(path, info, os.Geteuid(), phase.ServiceUser); err != nil {
		return "", err
	}
	raw, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		return "", s.bad(name, errors.New("it is empty"))
	}
	return strings.TrimRight(string(raw), "\r\n"), err
}

// bad says what is wrong with a secret. Only its owner can know whether it may go.
func (s *Secrets) bad(name string, err error) error {
	return fault.Wrap(err, "the secret "+s.path(name)+" can't be used",
		"put the right one back; or, when nothing uses it any more, remove it and install again")
}
