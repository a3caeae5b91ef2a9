package flatten

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// Scan reads one layer, the plain tar r, and what follows its end marker: r
// has the last word on whether its content is right. File contents go to data. The
// error is an *EntryError when an entry is at fault.
func Scan(r io.Reader, layer int, data Data, b *Budget) (*Tree, error) {
	s := &scanner{tree: NewTree(), layer: layer, data: data, budget: b}
	s.tree.layer = layer
	stream := &metered{r: r, budget: b}
	s.tar = tar.NewReader(stream)
	for {
		hdr, err := s.tar.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, stream)
			return s.tree, err
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return nil, fmt.Errorf("layer %d: after entry %s: %w", layer, quote(s.last), err)
		}
		s.last = hdr.Name
		if err := s.entry(hdr); err != nil {
			return nil, &EntryError{layer, hdr.Name, err}
		}
	}
}

// metered spends the stream budget.
type metered struct {
	r      io.Reader
	budget *Budget
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if over := spend(&m.budget.stream, int64(n), "bytes in its layers"); over != nil {
		return 0, over
	}
	return n, err
}

// scanner builds the tree of one layer.
type scanner struct {
	tree   *Tree
	tar    *tar.Reader
	layer  int
	data   Data
	budget *Budget
	last   string
}

func (s *scanner) entry(hdr *tar.Header) error {
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		s.tree.Report.Globals++
		return nil
	}
	parts, hides, err := splitEntry(hdr.Name)
	switch {
	case err != nil:
		return err
	case hides != "":
		return s.whiteout(hdr, parts, hides)
	case len(parts) == 0:
		return s.root(hdr)
	case hdr.Typeflag == tar.TypeLink:
		return s.hardlink(hdr, parts)
	}
	mode, err := modeOf(hdr)
	if err != nil {
		return err
	}
	id, err := s.place(parts, mode)
	if err != nil {
		return err
	}
	if err := s.fill(id, hdr, mode); err != nil {
		return err
	}
	if n := s.tree.at(id); n.hides() {
		s.device(parts)
	} else if err := s.content(n, hdr); err != nil {
		return err
	}
	return nil
}

// device counts a device node, which is never made.
func (s *scanner) device(parts []string) {
	if parts[0] == "dev" {
		s.tree.Report.DevNodes++
	} else {
		s.tree.Report.OtherNodes++
		s.tree.Report.name(strings.Join(parts, "/"))
	}
}

// content stores what belongs to the entry besides its attributes.
func (s *scanner) content(n *record, hdr *tar.Header) error {
	switch n.Type() {
	case unix.S_IFREG:
		return s.file(n, hdr)
	case unix.S_IFLNK:
		if hdr.Linkname == "" || len(hdr.Linkname) > maxLink || strings.IndexByte(hdr.Linkname, 0) >= 0 {
			return fmt.Errorf("the link's target is empty, has a NUL byte, or is longer than %d bytes", maxLink)
		}
		n.Size = int64(len(hdr.Linkname))
		n.link = s.tree.names.add(hdr.Linkname)
	}
	return nil
}

func (s *scanner) file(n *record, hdr *tar.Header) error {
	if strings.HasSuffix(hdr.Name, "/") {
		return errors.New("a file's name ends in a slash")
	}
	if hdr.Size < 0 {
		return errors.New("the size is negative")
	}
	if err := spend(&s.budget.logical, hdr.Size, "the sizes of its files"); err != nil {
		return err
	}
	n.Size, n.Layer = hdr.Size, uint16(s.layer)
	if n.Size == 0 {
		return nil
	}
	var err error
	n.Data, err = s.data.Append(s.tar, n.Size)
	return err
}

func (s *scanner) root(hdr *tar.Header) error {
	if hdr.Typeflag != tar.TypeDir {
		return errors.New("the root is not a directory")
	}
	s.tree.at(RootID).flags &^= flagImplied
	return s.fill(RootID, hdr, unix.S_IFDIR|uint16(hdr.Mode&0o7777))
}

// whiteout hides a name of the lower layers, or all of a directory's.
func (s *scanner) whiteout(hdr *tar.Header, dir []string, hidden string) error {
	if hdr.Typeflag != tar.TypeLink && (hdr.Typeflag != tar.TypeReg || hdr.Size != 0) {
		return errors.New("a whiteout is not an empty file")
	}
	d, err := s.dir(dir)
	if err != nil {
		return err
	}
	if hidden == "." {
		s.tree.at(d).flags |= flagOpaque
		return nil
	}
	id := s.tree.find(d, []byte(hidden))
	if id == 0 {
		_, err := s.add(d, hidden)
		return err
	}
	// What this layer itself has at the name stays.
	s.tree.at(id).flags |= flagOpaque
	return nil
}

// hardlink gives the target's inode another name. A target that this layer
// doesn't have, or not yet, is found when the layers are merged.
func (s *scanner) hardlink(hdr *tar.Header, parts []string) error {
	target, hides, err := splitEntry(hdr.Linkname)
	if err != nil || hides != "" || len(target) == 0 {
		return fmt.Errorf("a hard link to %s is not possible", quote(hdr.Linkname))
	}
	to := s.tree.walk(target)
	if to != 0 && s.tree.Inode(to).IsDir() {
		return fmt.Errorf("a hard link to the directory %s is not possible", quote(hdr.Linkname))
	}
	if to != 0 && to == s.tree.walk(parts) {
		return nil // GNU tar writes this for a file named twice
	}
	id, err := s.place(parts, unix.S_IFREG)
	if err != nil {
		return err
	}
	n := s.tree.at(id)
	if to != 0 && s.tree.Inode(to).Mode != 0 {
		n.Mode, n.inode = s.tree.Inode(to).Mode, s.tree.inodeOf(to)
		return nil
	}
	n.Mode = unix.S_IFREG
	n.flags |= flagPending
	n.link = s.tree.names.add(strings.Join(target, "/"))
	s.tree.pending = append(s.tree.pending, id)
	return nil
}

// place returns the record for an entry of the given type. Within a layer the
// last entry of a name counts; a directory named twice keeps its children.
func (s *scanner) place(parts []string, mode uint16) (ID, error) {
	d, err := s.dir(parts[:len(parts)-1])
	if err != nil {
		return 0, err
	}
	name := parts[len(parts)-1]
	id := s.tree.find(d, []byte(name))
	if id == 0 {
		return s.add(d, name)
	}
	n := s.tree.at(id)
	switch {
	case n.Mode == 0: // a whiteout: the new directory has nothing from below
		n.flags |= flagOpaque
		return id, nil
	case n.IsDir() && mode&unix.S_IFMT == unix.S_IFDIR:
		n.flags &^= flagImplied
		return id, nil
	}
	s.tree.detach(id)
	opaque := n.flags & flagOpaque
	if id, err = s.add(d, name); err != nil {
		return 0, err
	}
	s.tree.at(id).flags |= opaque
	return id, nil
}

// dir returns a directory of this layer, made if no entry described it so far.
func (s *scanner) dir(parts []string) (ID, error) {
	at := RootID
	for i, name := range parts {
		id, err := s.findOrAdd(at, name)
		if err != nil {
			return 0, err
		}
		n := s.tree.at(id)
		if n.Mode == 0 {
			n.Mode = unix.S_IFDIR | 0o755
			n.flags |= flagImplied
			s.tree.Report.Implied++
		}
		if !n.IsDir() {
			return 0, fmt.Errorf("%s is not a directory in this layer", quote(strings.Join(parts[:i+1], "/")))
		}
		at = id
	}
	return at, nil
}

// findOrAdd also turns a whiteout into what hides the same from below.
func (s *scanner) findOrAdd(dir ID, name string) (ID, error) {
	id := s.tree.find(dir, []byte(name))
	if id == 0 {
		return s.add(dir, name)
	}
	if n := s.tree.at(id); n.Mode == 0 {
		n.flags |= flagOpaque
	}
	return id, nil
}

// add makes an empty record, which is a whiteout until it is filled.
func (s *scanner) add(dir ID, name string) (ID, error) {
	if err := spend(&s.budget.entries, 1, "entries"); err != nil {
		return 0, err
	}
	if !s.tree.names.room(arenaChunk) {
		return 0, &TooBigError{"the length of all names"}
	}
	id := s.tree.alloc()
	s.tree.attach(dir, []byte(name), id)
	return id, nil
}

// walk finds a name without following links; 0 when there is none.
func (t *Tree) walk(parts []string) ID {
	at := RootID
	for _, name := range parts {
		if at = t.find(at, []byte(name)); at == 0 {
			return 0
		}
	}
	return at
}
