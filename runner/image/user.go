package image

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/flatten"
)

// User is who a job runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32
	// Name is "" and Home "/" for a uid that the image doesn't know.
	Name, Home string
}

// MaxDatabase bounds /etc/passwd and /etc/group.
const MaxDatabase = 1 << 20

// extent finds a regular file in a finished root.
func extent(t *flatten.Tree, path string) Extent {
	i := t.Lookup(path)
	if i == nil || i.Type() != unix.S_IFREG || i.Size > MaxDatabase {
		return Extent{}
	}
	return Extent{i.Data, i.Size}
}

// User resolves "name", "uid", "name:group" or "uid:gid" as Docker does; "" is
// the image's own user, and that is root when it names none.
func (r *Root) User(spec string) (User, error) {
	if spec == "" {
		spec = r.Run.User
	}
	return ResolveUser(spec, func(path string) ([]byte, error) {
		e := r.Root.Passwd
		if path == GroupFile {
			e = r.Root.Group
		}
		return r.read(e)
	})
}

// Files that name an image's users and groups.
const (
	PasswdFile = "/etc/passwd"
	GroupFile  = "/etc/group"
)

// ResolveUser is Root.User for an image whose files are read by read, no more than
// MaxDatabase of each; a file that isn't there is empty.
func ResolveUser(spec string, read func(path string) ([]byte, error)) (User, error) {
	if spec == "" {
		spec = "0"
	}
	passwd, err := read(PasswdFile)
	if err != nil {
		return User{}, err
	}
	group, err := read(GroupFile)
	if err != nil {
		return User{}, err
	}
	return resolveUser(spec, entries(passwd), entries(group))
}

func (r *Root) read(e Extent) ([]byte, error) {
	raw := make([]byte, min(e.Size, MaxDatabase))
	if _, err := r.file.ReadAt(raw, e.Offset); err != nil && err != io.EOF {
		return nil, err
	}
	return raw, nil
}

// entries reads a file of colon-separated lines; those that can't be entries are
// left out.
func entries(raw []byte) [][]string {
	var all [][]string
	for line := range strings.SplitSeq(string(raw), "\n") {
		if f := strings.Split(line, ":"); len(f) >= 4 {
			all = append(all, f)
		}
	}
	return all
}

func resolveUser(spec string, passwd, group [][]string) (User, error) {
	name, groupName, hasGroup := strings.Cut(spec, ":")
	u := User{Home: "/"}
	id, numeric := parseID(name)
	found := slices.IndexFunc(passwd, func(f []string) bool {
		uid, ok := parseID(f[2])
		return f[0] == name || numeric && ok && uid == id
	})
	switch {
	case found >= 0 && len(passwd[found]) >= 6:
		f := passwd[found]
		uid, ok1 := parseID(f[2])
		gid, ok2 := parseID(f[3])
		if !ok1 || !ok2 {
			return u, noUser(spec, "its line in /etc/passwd has no valid ids")
		}
		u.UID, u.GID, u.Name, u.Home = uid, gid, f[0], f[5]
	case numeric:
		u.UID = id
	default:
		return u, noUser(spec, "/etc/passwd doesn't have it")
	}
	if hasGroup {
		gid, ok := findGroup(groupName, group)
		if !ok {
			return u, noUser(spec, "/etc/group doesn't have the group")
		}
		u.GID = gid
		return u, nil
	}
	u.Groups = memberships(u.Name, group)
	return u, nil
}

func noUser(spec, why string) error {
	return fault.New(fmt.Sprintf("the image has no user %q: %s", spec, why), "choose another with --user UID:GID")
}

func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n < 1<<32-1
}

func findGroup(name string, group [][]string) (uint32, bool) {
	if id, ok := parseID(name); ok {
		return id, true
	}
	for _, f := range group {
		if f[0] == name {
			return parseID(f[2])
		}
	}
	return 0, false
}

// memberships lists a user's supplementary groups.
func memberships(name string, group [][]string) []uint32 {
	const most = 64
	var ids []uint32
	for _, f := range group {
		id, ok := parseID(f[2])
		if ok && name != "" && slices.Contains(strings.Split(f[3], ","), name) && !slices.Contains(ids, id) && len(ids) < most {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
