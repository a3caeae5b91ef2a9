package workspace

import (
	"archive/tar"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// maxNames bounds the names and link targets held in memory, in bytes.
const maxNames = 64 << 20

// Diff is a checked list of changes, sorted by path, with their content.
type Diff struct {
	Entries []Entry
	// Content says whether the changes came with content; without, they can
	// only be listed.
	Content bool

	spool *spool
}

// Close gives up the content.
func (d *Diff) Close() error {
	if d.spool == nil {
		return nil
	}
	return d.spool.Close()
}

// Read takes the agent's diff stream. Content goes to a file in the directory
// dir; "" says that the stream has none. Anything that the agent would not send
// is refused as a whole.
func Read(ctx context.Context, r io.Reader, dir string, lim Limits) (*Diff, error) {
	d := &Diff{Content: dir != ""}
	if d.Content {
		s, err := newSpool(dir)
		if err != nil {
			return nil, fault.Wrap(err, "keep the job's changes", "make room in the state directory and check that it is writable")
		}
		d.spool = s
	}
	p := parser{diff: d, left: lim, tar: newTarReader(r, lim)}
	if err := p.all(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// parser checks entries one after the other.
type parser struct {
	diff *Diff
	left Limits
	tar  *tarReader
	last string
	// names counts bytes.
	names int
	// open are the earlier entries whose key begins the current one's.
	open []*Entry
}

func (p *parser) all(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h, err := p.tar.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse("the stream of changes", err)
		}
		if err := p.entry(h); err != nil {
			return err
		}
	}
}

func (p *parser) entry(h *tar.Header) error {
	if p.left.Entries == 0 {
		return tooMuch("files")
	}
	if h.Size < 0 || h.Size > p.left.Bytes {
		return tooMuch("bytes")
	}
	p.names += len(h.Name) + len(h.Linkname)
	if p.names > maxNames {
		return tooMuch("names")
	}
	p.left.Entries--
	p.left.Bytes -= h.Size
	e, err := parseEntry(h, p.diff.Content)
	if err == nil {
		err = p.place(e)
	}
	if err == nil && p.diff.Content {
		err = p.content(e, h)
	}
	if err != nil {
		return refuse("the change of "+quotePath(h.Name), err)
	}
	p.diff.Entries = append(p.diff.Entries, *e)
	return nil
}

// place checks an entry against those before it: sorted, and telling one story.
// Below a new directory everything is new, below a deleted one deleted; a file
// that is new has only deleted paths below it, a deleted one only new ones.
func (p *parser) place(e *Entry) error {
	key := e.key()
	if key <= p.last {
		return errors.New("is not in order")
	}
	p.last = key
	for len(p.open) > 0 && !strings.HasPrefix(key, p.open[len(p.open)-1].key()) {
		p.open = p.open[:len(p.open)-1]
	}
	for _, above := range p.open {
		if !strings.HasPrefix(key, above.Path+"/") {
			continue
		}
		want := above.Kind
		switch {
		case above.Mode == ModeDir:
		case above.Kind == job.Added:
			want = job.Deleted
		case above.Kind == job.Deleted:
			want = job.Added
		default:
			want = ""
		}
		if e.Kind != want {
			return fmt.Errorf("contradicts the change of %s", quotePath(above.key()))
		}
	}
	p.open = append(p.open, e)
	return nil
}

// content spools a file's content.
func (p *parser) content(e *Entry, h *tar.Header) (err error) {
	switch {
	case e.Kind == job.Deleted || e.Mode == ModeDir:
	case e.Mode == ModeLink:
		e.content = textBlob(h.Linkname)
	default:
		e.content, err = p.diff.spool.add(p.tar, h.Size)
	}
	return err
}

// parseEntry checks what can be said of one entry alone.
func parseEntry(h *tar.Header, content bool) (*Entry, error) {
	name, slash := strings.CutSuffix(h.Name, "/")
	if err := checkPath(name); err != nil {
		return nil, err
	}
	e := &Entry{
		Path: name, Kind: job.ChangeKind(h.PAXRecords[agent.PAXChange]),
		Perm: fs.FileMode(h.Mode).Perm(), ModTime: h.ModTime,
	}
	switch {
	case h.Typeflag == tar.TypeDir && slash:
		e.Mode = ModeDir
	case h.Typeflag == tar.TypeSymlink && !slash:
		e.Mode = ModeLink
	case h.Typeflag == tar.TypeReg && !slash && e.Perm&0o100 != 0:
		e.Mode = ModeExec
	case h.Typeflag == tar.TypeReg && !slash:
		e.Mode = ModeFile
	default:
		return nil, fmt.Errorf("type %q is none of file, directory and link", h.Typeflag)
	}
	if h.Size != 0 && (!content || e.Kind == job.Deleted || !e.Mode.isFile()) {
		return nil, errors.New("has content where there is none")
	}
	if err := checkLink(h, e, content); err != nil {
		return nil, err
	}
	return e, e.parseOld(h.PAXRecords, content)
}

func checkLink(h *tar.Header, e *Entry, content bool) error {
	wants := content && e.Mode == ModeLink && e.Kind != job.Deleted
	if wants != (h.Linkname != "") || len(h.Linkname) >= maxPath || strings.ContainsRune(h.Linkname, 0) {
		return errors.New("is not a link as it should be")
	}
	return nil
}

// parseOld reads the records of what was there before.
func (e *Entry) parseOld(rec map[string]string, content bool) error {
	mode, err := strconv.ParseUint(rec[agent.PAXOldMode], 8, 32)
	e.Old.Mode = Mode(mode)
	switch {
	case e.Kind == job.Added && rec[agent.PAXOldMode] == "":
		return nil
	case e.Kind == job.Deleted && err == nil && (e.Old.Mode == e.Mode || e.Mode.isFile() && e.Old.Mode.isFile()):
		e.Mode = e.Old.Mode
	case e.Kind == job.Modified && err == nil && e.Mode != ModeDir && (e.Old.Mode.isFile() || e.Old.Mode == ModeLink):
	default:
		return fmt.Errorf("kind %q with old mode %q makes no sense", e.Kind, rec[agent.PAXOldMode])
	}
	if !content || e.Mode == ModeDir {
		return nil
	}
	e.Old.Size, err = strconv.ParseInt(rec[agent.PAXOldSize], 10, 64)
	sum, errSum := hex.DecodeString(rec[agent.PAXOldSHA256])
	if err != nil || errSum != nil || e.Old.Size < 0 || len(sum) != len(e.Old.SHA256) {
		return errors.New("does not say what was there before")
	}
	copy(e.Old.SHA256[:], sum)
	return nil
}
