//go:build images

package images

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/image"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/state/statetest"
)

var (
	quavon = flag.String("quavon", "../../bin/quavon", "the quavon to run")
	state  = flag.String("state", "", "state directory that keeps the images, by name")
	engine = flag.String("engine", "", "DOCKER_HOST of an engine; empty leaves the daemon out")
	docker = flag.String("docker", "docker", "the docker command that talks to it")
)

// TestSources takes each image in from a registry, an OCI layout, a docker-archive
// and the daemon, and wants the same bytes; then it runs something in it.
func TestSources(t *testing.T) {
	for i := range images {
		r := &images[i]
		t.Run(r.name, func(t *testing.T) {
			img := r.build(t)
			archive := it.DockerArchive(t, img, "quavon-"+r.name+":test")
			sources := map[string][]string{
				"registry":       {"pull", it.Push(t, it.Registry(t), img)},
				"layout":         {"import", it.Layout(t, img)},
				"docker-archive": {"import", archive},
			}
			if *engine != "" {
				run(t, nil, *docker, "-H", *engine, "load", "-q", "-i", archive)
				sources["daemon"] = []string{"import", "docker-daemon:quavon-" + r.name + ":test"}
			}
			var sums []string
			for name, args := range sources {
				sum := takeIn(t, statetest.Path(t), args).Root.Hash
				t.Logf("%s: %s", name, sum)
				sums = append(sums, sum)
			}
			for _, sum := range sums {
				if sum != sums[0] {
					t.Errorf("different roots: %v", sums)
				}
			}
			dir := *state
			if dir == "" {
				dir = statetest.Path(t)
			}
			takeIn(t, dir, []string{"import", "--name", r.name, archive})
			t.Run("run", func(t *testing.T) { inUse(t, dir, r.name) })
		})
	}
}

// takeIn runs `quavon images` and returns what it knows of the image.
func takeIn(t *testing.T, dir string, args []string) *image.Record {
	t.Helper()
	env := []string{"QUAVON_STATE_DIR=" + dir, "DOCKER_HOST=" + *engine}
	id := strings.TrimSpace(run(t, env, *quavon, append([]string{"images"}, args...)...))
	r := new(image.Record)
	must(t, json.Unmarshal([]byte(run(t, env, *quavon, "images", "inspect", id)), r))
	return r
}

// checks are what shows that an image works.
var checks = map[string]string{
	"debian": `test "$(cat /etc/issue.too)" = "Quavon's test image" && ! ls /etc/motd 2>/dev/null && dpkg -l | grep -q libc6 && test -z "$(ls /usr/share/doc)"`,
	"node":   `cd /opt/app && node -e 'for (const m of ["express", "eslint", "mocha"]) require(m); console.log(process.getuid())' && echo x >/opt/app/x`,
	"python": `python3 -c 'import numpy, scipy.linalg, pandas; print(scipy.linalg.det(numpy.eye(3)), pandas.DataFrame({"a": [1]}).sum().a)' && test $(id -un) = nobody`,
	"go": `mkdir /tmp/m && cd /tmp/m && go mod init m && printf 'package main\n\nimport "C"\n\nfunc main() { println("ok") }\n' >main.go && ` +
		`CGO_ENABLED=1 go build -o m . && ./m`,
}

func inUse(t *testing.T, dir, name string) {
	run(t, []string{"QUAVON_STATE_DIR=" + dir, "HOME=/root"}, *quavon, "run", "--image", name, "-w", "none", "--", "sh", "-ec", checks[name])
}

// run runs a program and returns its stdout.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errOut.String())
	}
	return string(out)
}
