package flatten

import (
	"fmt"
	"slices"
	"strings"
)

// Merge puts a layer's tree on top of t, which holds the layers below it, and
// takes upper apart in doing so. Start with NewTree.
func (t *Tree) Merge(upper *Tree) error {
	m := merger{t, upper}
	if err := m.bind(); err != nil {
		return err
	}
	if t.count == int(RootID)+1 {
		upper.settle()
		*t = *upper
		return nil
	}
	m.dir(RootID, RootID)
	t.Report.Add(&upper.Report)
	return nil
}

// settle makes the bottom layer's tree the image's: there is nothing to hide.
func (t *Tree) settle() {
	t.pending = nil
	for id := RootID + 1; int(id) < t.count; id++ {
		if t.at(id).flags&flagDead == 0 && t.Inode(id).hides() {
			t.detach(id)
		}
	}
}

// merger uses Inode.Num of the upper tree's inodes for their IDs in the lower.
type merger struct{ lower, upper *Tree }

// bind settles hard links whose target the layer lacked when they were read:
// the layers below have it, or it came later in the same layer.
func (m *merger) bind() error {
	for _, id := range m.upper.pending {
		n := m.upper.at(id)
		path := string(m.upper.names.get(n.link))
		target := strings.Split(path, "/")
		n.link = 0
		if to := m.lower.walk(target); to != 0 && !m.lower.Inode(to).IsDir() {
			n.Num = uint32(m.lower.inodeOf(to))
			continue
		}
		to := m.upper.inodeOf(m.upper.walk(target))
		if t := m.upper.at(to); t.Mode == 0 || t.IsDir() || t.flags&flagPending != 0 {
			err := fmt.Errorf("the hard link's target %s is no file of the image", quote(path))
			return &EntryError{m.upper.layer, m.upper.path(id), err}
		}
		n.inode, n.Mode, n.flags = to, m.upper.at(to).Mode, n.flags&^flagPending
	}
	return nil
}

// dir merges the upper directory u into the lower directory l.
func (m *merger) dir(u, l ID) {
	src := m.upper.at(u)
	if src.flags&flagOpaque != 0 {
		m.clear(l)
	}
	if src.flags&flagImplied == 0 {
		m.copyAttrs(u, l)
	}
	for id := m.upper.First(u); id != 0; id = m.upper.Next(id) {
		if m.upper.at(id).flags&flagDead == 0 {
			m.entry(id, l)
		}
	}
}

func (m *merger) entry(u, dir ID) {
	name := m.upper.Name(u)
	old := m.lower.find(dir, name)
	isDir := m.upper.at(u).inode == u && m.upper.at(u).IsDir()
	if old != 0 && (!isDir || !m.lower.Inode(old).IsDir()) {
		m.lower.detach(old)
		old = 0
	}
	switch {
	case m.upper.Inode(u).hides():
	case !isDir:
		m.file(u, dir, name)
	case old != 0:
		m.dir(u, old)
	default:
		id := m.copyInode(u)
		m.lower.attach(dir, name, id)
		m.dir(u, id)
	}
}

// file gives the inode behind u a name below dir.
func (m *merger) file(u, dir ID, name []byte) {
	inode := m.copyInode(m.upper.inodeOf(u))
	id := inode
	if n := m.lower.at(inode); n.parent != 0 {
		id = m.lower.alloc()
		m.lower.at(id).inode = inode
	}
	m.lower.attach(dir, name, id)
}

// copyInode returns the lower tree's copy of an upper inode.
func (m *merger) copyInode(u ID) ID {
	src := m.upper.at(u)
	if src.Num != 0 {
		return ID(src.Num)
	}
	id := m.lower.alloc()
	src.Num = uint32(id)
	m.lower.at(id).Inode = src.Inode
	m.lower.at(id).flags = src.flags & flagImplied
	m.copyAttrs(u, id)
	return id
}

// copyAttrs copies everything but the flags and names.
func (m *merger) copyAttrs(u, l ID) {
	src, dst := m.upper.at(u), m.lower.at(l)
	dst.Inode = src.Inode
	dst.Num = 0
	dst.link = m.lower.names.add(string(m.upper.names.get(src.link)))
	dst.xattrs = m.lower.names.add(string(m.upper.names.get(src.xattrs)))
}

// clear removes all names of a lower directory.
func (m *merger) clear(dir ID) {
	for id := m.lower.First(dir); id != 0; id = m.lower.Next(id) {
		if n := m.lower.at(id); n.flags&flagDead == 0 {
			m.lower.detach(id)
		}
	}
	m.lower.at(dir).child = 0
}

// path is a record's full name.
func (t *Tree) path(id ID) string {
	var parts []string
	for ; id != RootID && id != 0; id = t.at(id).parent {
		parts = append(parts, string(t.Name(id)))
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}
