package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/test/need"
)

// TestMakePoint makes points in roots that lack them, have them, or have something in
// the way; nothing is made through a link.
func TestMakePoint(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root")
	sticky := &agentpb.Point{Path: "/var/tmp", Mode: 0o1777, Uid: 3, Gid: 4}
	renewed := &agentpb.Point{Path: "/var/tmp", Mode: 0o1777, Uid: 3, Gid: 4, Renew: true}
	renewedHosts := &agentpb.Point{Path: "/etc/hosts", Mode: 0o644, Body: []byte("new"), Renew: true}
	hosts := &agentpb.Point{Path: "/etc/hosts", Mode: 0o644, Body: []byte("new")}
	for name, c := range map[string]struct {
		point *agentpb.Point
		// has is made below the root first: a file, with "/" at the end a directory, with
		// "->" a link out of the root, with "=" an empty file. All of it has the mode 0700.
		has  string
		want string
	}{
		"missing":             {sticky, "", "dtrwxrwxrwx 3:4 "},
		"there":               {sticky, "var/tmp/", "drwx------ 0:0 "},
		"there and renewed":   {renewed, "var/tmp/", "dtrwxrwxrwx 3:4 "},
		"missing and renewed": {renewed, "", "dtrwxrwxrwx 3:4 "},
		"a file":              {sticky, "var/tmp", "dtrwxrwxrwx 3:4 "},
		"a link":              {sticky, "var/tmp->", "dtrwxrwxrwx 3:4 "},
		"a link, renewed":     {renewed, "var/tmp->", "dtrwxrwxrwx 3:4 "},
		"a link above":        {sticky, "var->", "dtrwxrwxrwx 3:4 "},
		"a file above":        {sticky, "var", "dtrwxrwxrwx 3:4 "},
		"followed, missing":   {&agentpb.Point{Path: "/var/tmp", Mode: 0o755, Follow: true}, "", "drwxr-xr-x 0:0 "},
		"followed, there":     {&agentpb.Point{Path: "/var/tmp", Mode: 0o755, Follow: true}, "var/tmp/", "drwx------ 0:0 "},
		"followed to a file":  {&agentpb.Point{Path: "/var/tmp", Mode: 0o755, Follow: true}, "var/tmp", "-rwx------ 0:0 old"},
		"a file missing":      {hosts, "", "-rw-r--r-- 0:0 new"},
		"a file there":        {hosts, "etc/hosts", "-rwx------ 0:0 old"},
		"a file, renewed":     {renewedHosts, "etc/hosts", "-rwx------ 0:0 old"},
		"an empty file there": {hosts, "etc/hosts=", "-rwx------ 0:0 new"},
		"an empty file":       {renewedHosts, "etc/hosts=", "-rw-r--r-- 0:0 new"},
		"a directory instead": {hosts, "etc/hosts/x", "-rw-r--r-- 0:0 new"},
		"a link instead":      {hosts, "etc/hosts->", "-rw-r--r-- 0:0 new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, outside := t.TempDir(), t.TempDir()
			at, isEmpty := strings.CutSuffix(filepath.Join(root, c.has), "=")
			file, isLink := strings.CutSuffix(at, "->")
			dir := filepath.Dir(file)
			if strings.HasSuffix(c.has, "/") {
				dir = file
			}
			text := "old"
			if isEmpty {
				text = ""
			}
			err := os.MkdirAll(dir, 0o700)
			switch {
			case isLink:
				err = errors.Join(err, os.Symlink(outside, file))
			case dir != file && c.has != "":
				err = errors.Join(err, os.WriteFile(file, []byte(text), 0o700))
			}
			if err = errors.Join(err, makePoint(root, c.point)); err != nil {
				t.Fatal(err)
			}
			if got := ownerOf(t, filepath.Join(root, c.point.GetPath())); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("made outside of the root: %v, %v", left, err)
			}
		})
	}
	if err := makePoint(t.TempDir(), &agentpb.Point{Path: "/../x"}); err == nil {
		t.Error("a path that leads out is taken")
	}
}

// ownerOf is the mode, the owner and the content of what is at path.
func ownerOf(t *testing.T, path string) string {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if fi.Mode().Type() == 0 {
		if body, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	uid, gid := ids(fi)
	return fmt.Sprintf("%v %d:%d %s", fi.Mode()&(fs.ModeType|fs.ModePerm|fs.ModeSticky), uid, gid, body)
}

func ids(fi fs.FileInfo) (uid, gid uint32) {
	st := fi.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // Linux has no other
	return st.Uid, st.Gid
}
