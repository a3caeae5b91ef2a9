package compose

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/quavon/quavon/installer/phase"
)

// giveTo makes a file or directory the services' own. Compose mounts secrets as they
// are, and a service that isn't root couldn't read root's.
func giveTo(tx phase.Tx, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is no file of its own", path)
	}
	if st.Uid == Owner && st.Gid == Owner {
		return nil
	}
	act := phase.Act{Name: actOwner, Key: path, Data: map[string]string{
		"uid": strconv.Itoa(int(st.Uid)), "gid": strconv.Itoa(int(st.Gid)),
	}}
	return tx.Act(act, func() error { return os.Lchown(path, Owner, Owner) })
}

func takeBack(act phase.Act) error {
	uid, err1 := strconv.Atoi(act.Data["uid"])
	gid, err2 := strconv.Atoi(act.Data["gid"])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := os.Lchown(act.Key, uid, gid); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
