//go:build imagebuild

package imagebuild

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	binDir   = flag.String("bin", "", "directory of quavon, quavon-guest and runsc")
	stateDir = flag.String("state", "", "state directory whose store has the images")
	mark     = flag.String("mark", "", "text of all secrets that the images were built with")
)

var shipped = []string{"go", "guest", "node", "python", "scanners", "valkey"}

// TestTools has each tool of each image say its version and do one piece of work,
// as the image's own user, without a network.
func TestTools(t *testing.T) {
	for _, image := range shipped {
		runScript(t, image, map[string]string{"QUAVON_STATE_DIR": *stateDir, "PATH": *binDir + ":/usr/bin:/bin"})
	}
}

// TestMark looks for what was passed to the builds in the files of each image.
func TestMark(t *testing.T) {
	if *mark == "" {
		t.Skip("no -mark")
	}
	for _, image := range shipped {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			if found := filesWith(t, image, *mark); found != "" {
				t.Errorf("the image has something of the secrets in\n%s", found)
			}
			if found := filesWith(t, image, "VERSION_CODENAME=trixie"); !strings.Contains(found, "os-release") {
				t.Errorf("what is there isn't found: %q", found)
			}
		})
	}
}

// filesWith lists the files in an image that have the text.
func filesWith(t *testing.T, image, text string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(*binDir, "quavon"), "run", "--image", image, "--user", "0", "--workspace", "none", "--",
		"grep", "-rlaF", "--exclude-dir=proc", "--exclude-dir=sys", text, "/")
	cmd.Env = append(cmd.Environ(), "QUAVON_STATE_DIR="+*stateDir)
	out, _ := cmd.Output() // it fails when it finds nothing, and for what it may not read
	return string(out)
}
