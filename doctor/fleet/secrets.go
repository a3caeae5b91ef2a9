package fleet

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/quavon/quavon/doctor"
)

// serviceUID is who the services of an installation run as; only root can give files
// to it.
const serviceUID = 65532

// Secrets looks at the files of secrets, by setting: each must be a regular file that
// belongs to root, to the services' user or to this process's, and that nobody else
// can read.
func Secrets(files map[string]string) doctor.Finding {
	var bad []string
	for _, setting := range slices.Sorted(maps.Keys(files)) {
		if why := exposed(files[setting]); why != "" {
			bad = append(bad, fmt.Sprintf("%s (%s) %s", files[setting], setting, why))
		}
	}
	switch {
	case len(bad) > 0:
		return doctor.Failed("secrets aren't kept",
			"run `chmod 600` and `chown` on what is listed, and change the secrets that could be read", bad...)
	case len(files) == 0:
		return doctor.Warned("no secret is in a file: those of the environment can be read by all of the same user",
			"name files: VALKEY_URL_FILE, QUAVON_SANDBOX_SIGNING_KEY_FILE")
	}
	return doctor.Passed(fmt.Sprintf("%d files of secrets are closed to others", len(files)))
}

// exposed says what is wrong with a file, "" for nothing.
func exposed(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return "can't be looked at: " + err.Error()
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.Mode().IsRegular():
		return "is no regular file"
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Sprintf("has mode %04o", fi.Mode().Perm())
	case !ok:
		return "has no owner that is known"
	case st.Uid != 0 && st.Uid != serviceUID && int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to uid %d", st.Uid)
	}
	return ""
}
