package docker

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/state/statetest"
)

type fields = map[string]any

// fakeEngine answers as engines do that can't be had here. Its info is a good one's
// with changes.
type fakeEngine struct {
	newest, oldest string
	podman         bool
	info           fields
	images         map[string]fields
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	w.Header().Set("Api-Version", f.newest)
	if rest, ok := strings.CutPrefix(path, "/v1.51"); ok {
		path = rest
	} else if rest, ok := strings.CutPrefix(path, "/v"+f.newest); ok {
		path = rest
	}
	var answer any
	switch {
	case path == "/_ping":
	case path == "/v1/libpod/_ping" && f.podman:
	case path == "/version":
		answer = fields{"Version": "99.0", "ApiVersion": f.newest, "MinAPIVersion": f.oldest}
	case path == "/info":
		info := fields{
			"OSType": "linux", "OperatingSystem": "Debian", "DockerRootDir": "/var/lib/docker", "MemoryLimit": true, "PidsLimit": true, "CpuCfsQuota": true,
			"Runtimes": fields{"runsc": fields{"path": "/usr/bin/runsc", "runtimeArgs": []string{"--platform=systrap"}}, "runc": fields{"path": "runc"}},
		}
		maps.Copy(info, f.info)
		answer = info
	case strings.HasPrefix(path, "/images/") && f.images[strings.TrimSuffix(path[len("/images/"):], "/json")] != nil:
		answer = f.images[strings.TrimSuffix(path[len("/images/"):], "/json")]
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = fields{"message": "no such thing"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakeEngine) backend(t *testing.T, name string, l *lock.File) *Backend {
	t.Helper()
	b, err := New(Config{Name: name, Host: Endpoint{"unix://" + dockertest.Fake(t, f), "test"}, State: statetest.Dir(t), Lock: l})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Cases DK-01, DK-02, DK-05, DK-06, DJ-20 and GV-09.
func TestCheckEngines(t *testing.T) {
	t.Parallel()
	runsc := func(args ...string) fields {
		return fields{"Runtimes": fields{"runsc": fields{"path": "/usr/bin/runsc", "runtimeArgs": args}}}
	}
	for name, c := range map[string]struct {
		engine  fakeEngine
		backend string
		refused string
	}{
		"good":                 {engine: fakeEngine{newest: "1.45", oldest: "1.24"}},
		"Docker 29":            {engine: fakeEngine{newest: "1.52", oldest: "1.44"}},
		"Engine 24":            {engine: fakeEngine{newest: "1.43", oldest: "1.12"}},
		"Engine 23":            {engine: fakeEngine{newest: "1.42", oldest: "1.12"}, refused: "speaks API 1.12 to 1.42, quavon 1.43 to 1.51"},
		"Docker 20.10":         {engine: fakeEngine{newest: "1.41"}, refused: "quavon 1.43 to 1.51"},
		"a future one":         {engine: fakeEngine{newest: "1.70", oldest: "1.60"}, refused: "speaks API 1.60 to 1.70"},
		"Podman":               {engine: fakeEngine{newest: "1.41", podman: true}, refused: "Podman"},
		"rootless":             {engine: fakeEngine{newest: "1.45", info: fields{"SecurityOptions": []string{"name=seccomp,profile=builtin", "name=rootless"}}}, refused: "rootless"},
		"Desktop":              {engine: fakeEngine{newest: "1.45", info: fields{"OperatingSystem": "Docker Desktop"}}, refused: "Docker Desktop"},
		"Desktop, development": {engine: fakeEngine{newest: "1.45", info: fields{"OperatingSystem": "Docker Desktop"}}, backend: Runc},
		"snap":                 {engine: fakeEngine{newest: "1.45", info: fields{"DockerRootDir": "/var/snap/docker/common/var-lib-docker"}}, refused: "snap"},
		"Windows":              {engine: fakeEngine{newest: "1.45", info: fields{"OSType": "windows"}}, refused: "windows"},
		"no runsc":             {engine: fakeEngine{newest: "1.45", info: fields{"Runtimes": fields{"runc": fields{}}}}, refused: `no runtime "runsc", only runc`},
		"no sysbox":            {engine: fakeEngine{newest: "1.45"}, backend: Sysbox, refused: "sysbox-runc"},
		"no memory limits":     {engine: fakeEngine{newest: "1.45", info: fields{"MemoryLimit": false}}, refused: "can't limit"},
		"host network":         {engine: fakeEngine{newest: "1.45", info: runsc("--network=host")}, refused: "--network=host"},
		"one dash":             {engine: fakeEngine{newest: "1.45", info: runsc("-ignore-cgroups")}, refused: "ignore-cgroups"},
		"profiling":            {engine: fakeEngine{newest: "1.45", info: runsc("--profile")}, refused: "--profile"},
		"a value apart":        {engine: fakeEngine{newest: "1.45", info: runsc("--network", "host")}, refused: "--network host"},
		"another truth":        {engine: fakeEngine{newest: "1.45", info: runsc("--net-raw=1")}, refused: "--net-raw=1"},
		"a flag's override":    {engine: fakeEngine{newest: "1.45", info: runsc("--allow-flag-override")}, refused: "allow-flag-override"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.backend == "" {
				c.backend = Runsc
			}
			err := c.engine.backend(t, c.backend, nil).Check(t.Context())
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("error %v, want one with %q", err, c.refused)
			case c.refused != "" && (fault.Hint(err) == "" || fault.Code(err) != string(job.ReasonSandboxUnavailable)):
				t.Errorf("hint %q, code %q", fault.Hint(err), fault.Code(err))
			}
		})
	}
}

func TestRefusedConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"runc in production": {Name: Runc, Production: true},
		"privileged, denied": {Name: Privileged, DenyPrivileged: true},
		"unknown":            {Name: "docker"},
	} {
		c.State, c.Host = statetest.Dir(t), Endpoint{defaultSocket, "test"}
		if _, err := New(c); err == nil || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Case DK-11: the same image under each kind of image store.
func TestFindImage(t *testing.T) {
	t.Parallel()
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	index, manifest, config, layer := digest("1"), digest("2"), digest("3"), digest("4")
	l := &lock.File{Images: []lock.Image{{
		Name: "a", Source: lock.SourceRegistry, Ref: "registry.example/a", Index: index,
		Platforms: []lock.Platform{{Platform: here, Manifest: manifest, Config: config, DiffIDs: []string{layer}}},
	}}}
	arch := strings.TrimPrefix(here, "linux/")
	image := func(id, layer string) fields {
		return fields{"Id": id, "Os": "linux", "Architecture": arch, "RootFS": fields{"Layers": []string{layer}}, "Config": fields{"User": "app"}}
	}
	for name, c := range map[string]struct {
		images map[string]fields
		id     string
	}{
		"config's digest":       {map[string]fields{config: image(config, layer)}, config},
		"manifest's digest":     {map[string]fields{manifest: image(manifest, layer)}, manifest},
		"index's digest":        {map[string]fields{index: image(index, layer)}, index},
		"reference by manifest": {map[string]fields{"registry.example/a@" + manifest: image(config, layer)}, config},
		"reference by index":    {map[string]fields{"registry.example/a@" + index: image(index, layer)}, index},
		"other layers":          {map[string]fields{config: image(config, digest("5"))}, ""},
		"another image":         {map[string]fields{config: image(digest("6"), layer)}, ""},
		"only by tag":           {map[string]fields{"registry.example/a:1": image(config, layer)}, ""},
		"not there":             {nil, ""},
	} {
		for _, asked := range []string{index, manifest, config} {
			b := (&fakeEngine{newest: "1.45", images: c.images}).backend(t, Runsc, l)
			got, err := b.FindImage(t.Context(), asked)
			if c.id == "" {
				if fault.Code(err) != string(job.ReasonImageUnknown) || fault.Hint(err) == "" {
					t.Errorf("%s: %+v, %v", name, got, err)
				}
				continue
			}
			if err != nil || got.ID != c.id || got.Config != config || got.User != "app" {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
	b := (&fakeEngine{newest: "1.45", images: map[string]fields{digest("9"): image(digest("9"), layer)}}).backend(t, Runsc, l)
	for _, asked := range []string{digest("9"), "registry.example/a:1", "a", ""} {
		if _, err := b.FindImage(t.Context(), asked); fault.Code(err) != string(job.ReasonImageUnknown) {
			t.Errorf("%q isn't the lock's, but gives %v", asked, err)
		}
	}
}

// TestLookedAtAgain: a runner looks at its engine again while jobs are started.
func TestLookedAtAgain(t *testing.T) {
	t.Parallel()
	b := (&fakeEngine{newest: "1.45", oldest: "1.24"}).backend(t, Runsc, nil)
	e, err := b.checked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var jobs sync.WaitGroup
	for range 2 {
		s := &box{b: b, engine: e, stopped: true} // its container isn't there, which is told besides
		jobs.Go(func() {
			for range 50 {
				if info, _ := s.Info(t.Context()); info.Runtime != "runsc of Docker 99.0" {
					t.Errorf("the runtime is %q", info.Runtime)
				}
			}
		})
	}
	for range 50 {
		if _, err := b.Runtime(t.Context()); err != nil {
			t.Error(err)
		}
	}
	jobs.Wait()
}
