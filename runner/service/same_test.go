package service_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/servicetest"
)

var update = flag.Bool("update", false, "write the golden files")

// options are those of a runner, and the image its jobs run in, "" for the host's tools.
type options func(testing.TB, *queue.Queue) (service.Options, string)

// TestSameResult: one job file, one result, whatever isolates it.
func TestSameResult(t *testing.T) {
	t.Parallel()
	golden := filepath.Join("testdata", "same.golden.json")
	engine := dockertest.Later(t)
	for name, options := range map[string]options{
		runsc.Name:   func(t testing.TB, q *queue.Queue) (service.Options, string) { return servicetest.Options(t, q), "" },
		docker.Runsc: onDocker(docker.Runsc, engine),
		docker.Runc:  onDocker(docker.Runc, engine),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := servicetest.NewQueue(t).Open(t)
			o, image := options(t, q)
			servicetest.StartHealthy(t, o)
			f, err := os.Open(filepath.Join("testdata", "same.json"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			j, err := client.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			j.Dir, j.Image = t.TempDir(), image
			if err := os.WriteFile(filepath.Join(j.Dir, "a"), []byte("one\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			res, log := run(t, q, j)
			var patch strings.Builder
			if err := res.Patch(t.Context(), &patch); err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(map[string]any{
				"result": timeless(res), "stdout": log.out.String(), "stderr": log.err.String(), "patch": patch.String(),
			}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
				t.Errorf("another result (-update writes it):\n%s", d)
			}
		})
	}
}

// timeless leaves out what differs between runs and backends by its nature.
func timeless(r *client.Result) client.Result {
	out := *r
	out.ID, out.Runner, out.Phases, out.Usage, out.Sandbox = "", "", nil, job.Usage{}, job.SandboxInfo{}
	out.Steps = nil
	for _, s := range r.Steps {
		s.Wall, s.Usage = 0, job.Usage{}
		out.Steps = append(out.Steps, s)
	}
	return out
}
