package compose

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// builder is one that makes a lock and what is beside it, or fails when it has made that.
type builder struct {
	dir, name string
	fails     error
}

func (b *builder) Stale(context.Context) ([]string, error) { return []string{"it is another"}, nil }

func (b *builder) Build(context.Context, phase.Reporter) ([]string, error) {
	beside(b.dir, b.name)
	if b.fails != nil {
		return nil, b.fails
	}
	lock := filepath.Join(b.dir, "images.lock.json")
	_ = os.Rename(lock, lock+".prev")
	return nil, os.WriteFile(lock, []byte(locked(b.name)), 0o644)
}

// locked is no lock, but names what one would.
func locked(digit string) string {
	d := strings.Repeat(digit, 64)
	return `{"path":"images/box-linux-amd64-` + d[:12] + `.cdx.json","bundle":"sha256:` + d + `"}`
}

func beside(dir, digit string) {
	d := strings.Repeat(digit, 64)
	for _, name := range []string{
		"images/box-linux-amd64-" + d[:12] + ".cdx.json", "images/box-linux-amd64-" + d[:12] + ".ext4", "signatures/" + d + ".json",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(digit), 0o644)); err != nil {
			panic(err)
		}
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*", "images/*", "signatures/*"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // a good pattern
		for _, path := range paths {
			data, _ := os.ReadFile(path) // "" of a directory
			all[strings.TrimPrefix(path, dir)] = string(data)
		}
	}
	return all
}

// TestOperatorsLock: a lock and its files that the operator has built are as before after
// an uninstall, however often they were built anew, and what a failed build leaves is gone.
func TestOperatorsLock(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		dir := t.TempDir()
		for name, text := range map[string]string{"images/notes.cdx.json": "mine", "images/box/Dockerfile": "mine", "signatures/README": "mine"} {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if own {
			beside(dir, "0")
			if err := os.WriteFile(filepath.Join(dir, "images.lock.json"), []byte(locked("0")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := files(t, dir)
		b := &builder{dir: dir, name: "1", fails: errors.New("broken")}
		target := &phase.Target{Dir: dir}
		i := &images{&stack{Options: Options{Target: target, Images: b}}}
		o := journal.Options{Dir: target.State(), Undo: func(ctx context.Context, _ string, act phase.Act, how phase.How) error {
			return i.Undo(ctx, act, how, nil)
		}}
		build := func() (err error) {
			j, err := journal.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { err = errors.Join(err, j.Close()) }()
			tx := j.Begin()
			if err := tx.Enter(phase.Images); err != nil {
				t.Fatal(err)
			}
			// Behind the build it fails: of this lock no images can be noted.
			if err := i.Apply(t.Context(), tx, nil); b.fails != nil {
				if _, undo := j.Rollback(t.Context()); err == nil || undo != nil {
					t.Fatal(err, undo)
				}
				return j.Leave()
			}
			return errors.Join(tx.Commit(), os.WriteFile(target.Compose(), nil, 0o644))
		}
		if err := build(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before, files(t, dir)); d != "" && !own { // with an own one the lists stay, for the next build
			t.Errorf("a failed build leaves %s", d)
		}
		b.fails = nil
		for _, b.name = range []string{"1", "2", "3"} {
			if err := build(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(target.Compose()); err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		standing, err := j.Uninstall(t.Context(), false)
		if err := errors.Join(err, j.Leave(), j.Close()); err != nil || len(standing) > 0 {
			t.Fatal(err, standing)
		}
		if d := cmp.Diff(before, files(t, dir)); d != "" {
			t.Errorf("with an own lock (%v) an uninstall leaves %s", own, d)
		}
	}
}

// TestRestorePruned: a rollback to images that are gone, also those that only jobs need,
// ends before any service is touched, and says how to get them.
func TestRestorePruned(t *testing.T) {
	t.Parallel()
	s, a := stackAt(t, t.TempDir())
	l := writeLock(t, s, a)
	all := a.images
	i := &images{s}
	if err := i.Restore(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	for n, img := range l.Images {
		a.images = slices.Delete(slices.Clone(all), n, n+1)
		err := i.Restore(t.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "no image "+img.Name) || !strings.Contains(fault.Hint(err), "docker load") {
			t.Errorf("without %s: %v (%s)", img.Name, err, fault.Hint(err))
		}
	}
}

// writeLock writes a lock of three images, which the engine has.
func writeLock(t *testing.T, s *stack, a *answers) *lock.File {
	t.Helper()
	l := &lock.File{SchemaVersion: lock.SchemaVersion, Builder: lock.Builder{Version: "v1", Format: 1}}
	for i, name := range []string{"box", "quavon", "valkey"} {
		config := "sha256:" + strings.Repeat(string(rune('1'+i)), 64)
		a.images = append(a.images, config)
		l.Images = append(l.Images, lock.Image{Name: name, Source: lock.SourceDockerDaemon, Ref: "quavon/" + name, Platforms: []lock.Platform{
			{Platform: source.Host().String(), Config: config, DiffIDs: []string{layer}},
		}})
	}
	raw, err := l.Encode()
	if err == nil {
		err = os.WriteFile(s.Target.Lock(), raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// noting is a transaction that remembers what is noted.
type noting struct {
	phase.Tx
	acts []phase.Act
}

func (n *noting) Act(act phase.Act, do func() error) error {
	n.acts = append(n.acts, act)
	return do()
}

// TestBasesGoLast: a purge removes what images were built on from the engine, after them,
// and asks for nothing but images elsewhere.
func TestBasesGoLast(t *testing.T) {
	t.Parallel()
	s, a := stackAt(t, t.TempDir())
	writeLock(t, s, a)
	var forgotten []string
	s.Forget = func(_ context.Context, config string) error {
		forgotten = append(forgotten, config[:len("sha256:1")])
		return nil
	}
	i, tx := &images{s}, &noting{}
	if err := i.noteImages(tx, []string{"base:1"}); err != nil {
		t.Fatal(err)
	}
	for _, act := range slices.Backward(tx.acts) { // as the journal does
		if err := i.Undo(t.Context(), act, phase.Purge, nil); err != nil {
			t.Error(err)
		}
	}
	gone := []string{"/images/quavon/valkey:33", "/images/quavon/quavon:22", "/images/quavon/box:11111", "/images/base:1"}
	if d := cmp.Diff(gone, a.gone) + cmp.Diff([]string{"sha256:3", "sha256:2", "sha256:1"}, forgotten); d != "" {
		t.Error(d)
	}
}
