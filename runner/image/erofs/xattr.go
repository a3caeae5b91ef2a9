package erofs

import (
	"iter"
	"strings"
)

const (
	xattrHeader = 12
	xattrEntry  = 4
)

// xattrPrefixes are stored as a number.
var xattrPrefixes = []struct {
	prefix string
	index  byte
}{{"user.", 1}, {"trusted.", 4}, {"security.", 6}}

func cutPrefix(name string) (index byte, rest string) {
	for _, p := range xattrPrefixes {
		if rest, is := strings.CutPrefix(name, p.prefix); is {
			return p.index, rest
		}
	}
	return 0, name
}

// appendXattrs encodes an inode's attributes, as they follow it on disk.
func appendXattrs(b []byte, attrs iter.Seq2[string, []byte]) []byte {
	start := len(b)
	for name, value := range attrs {
		if len(b) == start {
			b = append(b, make([]byte, xattrHeader)...)
		}
		index, rest := cutPrefix(name)
		b = append(b, byte(len(rest)), index, byte(len(value)), byte(len(value)>>8))
		b = append(append(b, rest...), value...)
		for (len(b)-start)%xattrEntry != 0 {
			b = append(b, 0)
		}
	}
	return b
}

// xattrCount is how an inode says how many bytes of attributes follow.
func xattrCount(size int) uint16 {
	if size == 0 {
		return 0
	}
	return uint16((size-xattrHeader)/xattrEntry + 1)
}
