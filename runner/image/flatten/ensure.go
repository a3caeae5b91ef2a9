package flatten

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Point is a directory or a file that a tree must have: what something will be
// mounted on, or what programs expect and images leave to the runtime.
type Point struct {
	Path string
	// Body of a file that is missing or empty.
	Body string
	// Mode has Unix type and permission bits.
	Mode uint16
	UID  uint32
	GID  uint32
	// Own replaces whatever the image has at Path.
	Own bool
}

// Ensure makes what is missing of the points, before Finish. Anything in the
// way that is neither directory nor of the wanted type is replaced: a mount
// through an image's symbolic link could land anywhere. Bodies go to the data of
// layer 0.
func (t *Tree) Ensure(points []Point, data Data) error {
	for _, p := range points {
		parts, err := split(p.Path)
		if err != nil {
			return err
		}
		dir := RootID
		for _, name := range parts[:len(parts)-1] {
			dir = t.ensure(dir, name, Point{Mode: unix.S_IFDIR | 0o755})
		}
		n := t.Inode(t.ensure(dir, parts[len(parts)-1], p))
		if p.Body == "" || n.Size > 0 {
			continue
		}
		n.Layer, n.Size = 0, int64(len(p.Body))
		if n.Data, err = data.Append(strings.NewReader(p.Body), n.Size); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) ensure(dir ID, name string, p Point) ID {
	if id := t.find(dir, []byte(name)); id != 0 {
		if !p.Own && t.Inode(id).Type() == p.Mode&unix.S_IFMT {
			return id
		}
		t.detach(id)
	}
	id := t.alloc()
	n := t.at(id)
	n.Mode, n.UID, n.GID = p.Mode, p.UID, p.GID
	t.attach(dir, []byte(name), id)
	return id
}

// Resolve follows symbolic links inside the tree as a process with this root
// would, and returns an absolute path without links as far as it exists.
func (t *Tree) Resolve(path string) string {
	const most = 40 // links, as Linux allows
	var done []string
	links := 0
	todo := strings.Split(path, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = done[:max(0, len(done)-1)]
			continue
		}
		id := t.walk(append(done, name))
		if id == 0 || t.Inode(id).Type() != unix.S_IFLNK || links == most {
			done = append(done, name)
			continue
		}
		links++
		target := string(t.Link(id))
		if strings.HasPrefix(target, "/") {
			done = done[:0]
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return "/" + strings.Join(done, "/")
}

// Lookup follows symbolic links to a path's inode, nil when there is none.
func (t *Tree) Lookup(path string) *Inode {
	parts, err := split(t.Resolve(path))
	if err != nil {
		return nil
	}
	id := t.walk(parts)
	if id == 0 {
		return nil
	}
	return t.Inode(id)
}
