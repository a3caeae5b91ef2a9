package flatten

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	paxXattr = "SCHILY.xattr."
	// paxXattrBSD is libarchive's form, which most tools ignore too.
	paxXattrBSD    = "LIBARCHIVE.xattr."
	capabilityName = "security.capability"
	// maxXattrs bounds the attributes of one inode, as Linux's VFS does.
	maxXattrs = 64 << 10
)

// modeOf returns Unix type and permission bits.
func modeOf(hdr *tar.Header) (uint16, error) {
	perm := uint16(hdr.Mode & 0o7777)
	switch hdr.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return unix.S_IFREG | perm, nil
	case tar.TypeDir:
		return unix.S_IFDIR | perm, nil
	case tar.TypeSymlink:
		return unix.S_IFLNK | 0o777, nil
	case tar.TypeFifo:
		return unix.S_IFIFO | perm, nil
	case tar.TypeChar:
		return unix.S_IFCHR, nil
	case tar.TypeBlock:
		return unix.S_IFBLK, nil
	}
	return 0, fmt.Errorf("the type %q is unknown", hdr.Typeflag)
}

// fill sets a record's attributes from its entry.
func (s *scanner) fill(id ID, hdr *tar.Header, mode uint16) error {
	if hdr.Uid < 0 || hdr.Uid > math.MaxUint32 || hdr.Gid < 0 || hdr.Gid > math.MaxUint32 {
		return fmt.Errorf("owner %d:%d is out of range", hdr.Uid, hdr.Gid)
	}
	n := s.tree.at(id)
	n.Mode, n.UID, n.GID = mode, uint32(hdr.Uid), uint32(hdr.Gid)
	n.Sec, n.Nsec = hdr.ModTime.Unix(), uint32(hdr.ModTime.Nanosecond())
	if mode&unix.S_IFMT == unix.S_IFREG && mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		s.tree.Report.Setuid++
	}
	x, err := s.xattrs(hdr.PAXRecords)
	if err != nil {
		return err
	}
	n.xattrs = s.tree.names.add(x)
	return nil
}

// xattrs encodes the attributes that are kept, sorted: for each the length of
// its name, the name, the length of its value, the value.
func (s *scanner) xattrs(pax map[string]string) (string, error) {
	var out []byte
	for _, key := range slices.Sorted(maps.Keys(pax)) {
		name, is := strings.CutPrefix(key, paxXattr)
		if !is {
			if name, is = strings.CutPrefix(key, paxXattrBSD); is {
				s.tree.Report.dropXattr(name, 1)
			}
			continue
		}
		if !keepXattr(name) {
			s.tree.Report.dropXattr(name, 1)
			continue
		}
		if len(name) > maxName || strings.IndexByte(name, 0) >= 0 {
			return "", errors.New("the name of an extended attribute is not valid")
		}
		if name == capabilityName {
			s.tree.Report.Capabilities++
			s.tree.Report.name(s.last)
		}
		out = appendString(appendString(out, name), pax[key])
		if len(out) > maxXattrs {
			return "", fmt.Errorf("extended attributes take more than %d bytes", maxXattrs)
		}
	}
	return string(out), nil
}

// keepXattr is the allow list. Overlay's own attributes would change what an
// overlay on top of the tree shows.
func keepXattr(name string) bool {
	if name == capabilityName {
		return true
	}
	rest, is := strings.CutPrefix(name, "user.")
	return is && rest != "" && !strings.HasPrefix(rest, "overlay.")
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Xattrs yields an inode's extended attributes, sorted by name.
func (t *Tree) Xattrs(id ID) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		b := t.names.get(t.Inode(id).xattrs)
		next := func() []byte {
			size, n := binary.Uvarint(b)
			s := b[n : n+int(size)]
			b = b[n+int(size):]
			return s
		}
		for len(b) > 0 {
			name := string(next())
			if !yield(name, next()) {
				return
			}
		}
	}
}
