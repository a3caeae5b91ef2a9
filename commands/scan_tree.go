package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/scan"
	"github.com/quavon/quavon/runner/workspace"
)

// scanTree is the directory that is scanned, and what it was on its base branch.
type scanTree struct {
	dir string
	// prefix is the directory's place in its repository, "" or with a "/" behind.
	prefix string
	root   *os.Root
	// tip is the commit that --changed names, base where the work has left it; "" without.
	tip, base string
	// moved maps paths of now to those of base, blobs those of base to their objects.
	moved, blobs map[string]string
	// left is how much more is read, in bytes.
	left int64
}

// maxRead bounds what is read of all files together, in bytes: a scanner that was taken
// over may name the same large file by many paths.
const maxRead = 8 << 30

func openScanTree(dir string) (*scanTree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, "open the directory", "name one that you can read")
	}
	return &scanTree{dir: dir, prefix: workspace.RepoPath(dir), root: root, left: maxRead}, nil
}

// Close ends reading.
func (t *scanTree) Close() { t.root.Close() }

// maxSource bounds a file that lines are looked up in.
const maxSource = 16 << 20

// read is a scan.Source. It follows no link out of the directory.
func (t *scanTree) read(path string) []byte {
	rel, ok := strings.CutPrefix(path, t.prefix)
	if !ok {
		return nil
	}
	text, err := readIn(t.root, rel, min(maxSource, t.left))
	if err != nil {
		return nil
	}
	t.left -= int64(len(text))
	return text
}

// readIn reads a file in root of at most limit bytes. Nothing else is opened for long: a
// pipe would wait for its writer.
func readIn(root *os.Root, path string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular() || fi.Size() > limit:
		return nil, errors.New("it is no file, or too long")
	}
	return bounded.ReadAll(f, limit)
}

// findBase resolves --changed.
func (o *scanOptions) findBase(ctx context.Context, t *scanTree) (err error) {
	if o.Changed == "" {
		return nil
	}
	if t.tip, err = resolve(ctx, t.dir, o.Changed); err != nil {
		return err
	}
	out, err := git(ctx, t.dir, "merge-base", t.tip, "HEAD").Output()
	t.base = strings.TrimSpace(string(out))
	if err != nil || !commitID.MatchString(t.base) {
		return fault.Wrap(gitError(err), fmt.Sprintf("find where the work has left %.100q", o.Changed),
			"name a branch that HEAD has commits in common with; a shallow clone has too few: git fetch --unshallow")
	}
	if err := t.findMoved(ctx); err != nil {
		return err
	}
	return t.findBlobs(ctx)
}

// findMoved notes files that were renamed between base and HEAD, both of them
// commits: git runs no filter of the repository's for those.
func (t *scanTree) findMoved(ctx context.Context) error {
	out, err := git(ctx, t.dir, "diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", t.base, "HEAD").Output()
	if err != nil {
		return fault.Wrap(gitError(err), "compare with the base branch", "check the repository with git fsck")
	}
	t.moved = map[string]string{}
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+2 < len(fields); i += 3 {
		t.moved[fields[i+2]] = fields[i+1]
	}
	return nil
}

// findBlobs notes the files of base.
func (t *scanTree) findBlobs(ctx context.Context) error {
	out, err := git(ctx, t.dir, "ls-tree", "-r", "-z", "--full-tree", t.base).Output()
	if err != nil {
		return fault.Wrap(gitError(err), "look into the base branch", "check the repository with git fsck")
	}
	t.blobs = map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		if mode, rest, _ := strings.Cut(about, " "); mode != "120000" {
			if id, ok := strings.CutPrefix(rest, "blob "); ok {
				t.blobs[path] = id
			}
		}
	}
	return nil
}

// changed tells which lines of a file aren't on the base branch.
func (t *scanTree) changed(ctx context.Context, path string) (scan.Lines, error) {
	now := t.read(path)
	if now == nil {
		return scan.Lines{All: true}, nil // it can't be told
	}
	old := path
	if from, ok := t.moved[path]; ok {
		old = from
	}
	id, ok := t.blobs[old]
	if !ok {
		return scan.Changed(nil, now), nil
	}
	before, err := object(ctx, t.dir, id, old, maxSource)
	if err != nil {
		return scan.Lines{}, err
	}
	return scan.Changed(before, now), nil
}

// blob reads a file of a commit, nil when the commit has none there. Only the
// object itself is read: no filter and no textconv.
func blob(ctx context.Context, dir, commit, path string, most int64) ([]byte, error) {
	out, err := git(ctx, dir, "ls-tree", "-z", "--full-tree", commit, "--", ":(top,literal)"+path).Output()
	if err != nil {
		return nil, fault.Wrap(gitError(err), "look into the base branch", "check the repository with git fsck")
	}
	mode, rest, _ := strings.Cut(string(out), " ")
	kind, rest, _ := strings.Cut(rest, " ")
	id, _, _ := strings.Cut(rest, "\t")
	if kind != "blob" || mode == "120000" {
		return nil, nil
	}
	return object(ctx, dir, id, path, most)
}

// object reads a blob, its first bytes at most.
func object(ctx context.Context, dir, id, path string, most int64) ([]byte, error) {
	cmd := git(ctx, dir, "cat-file", "blob", id)
	var text, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &cutBuffer{&text, most}, &said
	if err := cmd.Run(); err != nil {
		return nil, fault.Wrap(errors.New(strings.TrimSpace(said.String())), "read "+path+" of the base branch",
			"check the repository with git fsck")
	}
	return text.Bytes(), nil
}

// cutBuffer takes the first bytes and drops the rest.
type cutBuffer struct {
	b    *bytes.Buffer
	left int64
}

func (c *cutBuffer) Write(p []byte) (int, error) {
	take := min(int64(len(p)), c.left)
	c.left -= take
	c.b.Write(p[:take])
	return len(p), nil
}

// config reads the repository's configuration. A change has no say in how it is
// scanned: with --changed it is the base branch's.
func (o *scanOptions) config(ctx context.Context, t *scanTree) (scan.Config, error) {
	from := o.ConfigFrom
	if from == "" && o.Changed != "" {
		from = t.tip
	}
	var text []byte
	switch from {
	case "none":
		return scan.Config{}, nil
	case "", "dir":
		var err error
		if text, err = t.ownConfig(); err != nil {
			return scan.Config{}, err
		}
	default:
		commit, err := resolve(ctx, t.dir, from)
		if err != nil {
			return scan.Config{}, err
		}
		if text, err = blob(ctx, t.dir, commit, scan.ConfigFile, scan.MaxConfig+1); err != nil {
			return scan.Config{}, err
		}
	}
	c, err := scan.ParseConfig(text)
	if err == nil && len(c.Disable)+len(c.IgnorePaths) > 0 {
		o.Log.Info("configuration of the repository", "disable", c.Disable, "ignore_paths", c.IgnorePaths)
	}
	return c, err
}

// ownConfig reads the file at the top of the repository that the directory is in.
func (t *scanTree) ownConfig() ([]byte, error) {
	top := t.root
	if t.prefix != "" {
		var err error
		if top, err = os.OpenRoot(strings.TrimSuffix(t.dir+"/", "/"+t.prefix)); err != nil {
			return nil, fault.Wrap(err, "open the repository", "use --config-from none")
		}
		defer top.Close()
	}
	text, err := readIn(top, scan.ConfigFile, scan.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "read "+scan.ConfigFile, "use --config-from none")
	}
	return text, nil
}
