package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/hostid"
	"github.com/quavon/quavon/runner/sandbox"
)

// Subject names what of a host is tested.
type Subject struct {
	Backend sandbox.Backend
	// Guest is the agent's binary, Lock the lock of images; "" has none.
	Guest, Lock string
	Bounds      Bounds
}

// Identify says what is here now.
func (s Subject) Identify(ctx context.Context) (Identity, error) {
	id := Identity{Host: hostid.ID(), Boot: hostid.Boot()}
	if b := sandbox.AsIdentified(s.Backend); b != nil {
		r, err := b.Runtime(ctx)
		if err != nil {
			return id, err
		}
		id.Runtime = r
	}
	lock, err1 := fileDigest(s.Lock)
	policy, err2 := s.policy()
	boot, err3 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err := errors.Join(err1, err2, err3); err != nil {
		return id, fault.Wrap(err, "look at this host", "make the file readable for the runner")
	}
	id.Evidence = evidence.Bound{
		BootID: strings.TrimSpace(string(boot)), Kernel: kernel(),
		RuntimeDigest: id.Runtime.Digest, RuntimeArgs: id.Runtime.Args, LockDigest: lock, PolicyDigest: policy,
	}
	return id, nil
}

// policy is a digest over what the sandboxes are to enforce, and the agent that does
// its part of it.
func (s Subject) policy() (string, error) {
	guest, err := fileDigest(s.Guest)
	if err != nil {
		return "", err
	}
	doc, err := json.Marshal(struct {
		Backend  string
		Policies sandbox.Policies
		Bounds   Bounds
		Guest    string
	}{s.Backend.Name(), s.Backend.Policies(), s.Bounds, guest})
	sum := sha256.Sum256(doc)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// fileDigest is a file's digest, "" when there is none.
func fileDigest(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	digest, err := disk.Digest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return digest, err
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:])
}
