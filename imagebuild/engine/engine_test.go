package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/engine/enginetest"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/test/need"
)

func connect(t *testing.T, host string) *engine.Engine {
	t.Helper()
	e, err := engine.Connect(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// loadBase gives the engine an image with a shell.
func loadBase(t *testing.T, e *engine.Engine) {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	need.That(t, err == nil, "busybox-static")
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "sleep", "false"} {
		entries = append(entries, it.Entry{Type: '1', Name: "bin/" + applet, Link: "bin/busybox", Mode: 0o755}) // the engine takes a link's mode
	}
	img := it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, entries...)))
	f, err := os.Open(it.DockerArchive(t, img, "base:test"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := e.Load(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func contextOf(t *testing.T, dockerfile string) *bytes.Reader {
	t.Helper()
	return bytes.NewReader(it.Tar(t, it.File("Dockerfile", dockerfile), it.File("hello", "hello\n")))
}

func TestEngine(t *testing.T) {
	t.Parallel()
	e := connect(t, enginetest.Start(t))
	loadBase(t, e)
	if !e.BuildKit {
		t.Fatal("this engine should have BuildKit")
	}
	classic := *e
	classic.BuildKit = false
	for name, e := range map[string]*engine.Engine{"buildkit": e, "classic": &classic} {
		t.Run(name, func(t *testing.T) {
			t.Run("builds", func(t *testing.T) { builds(t, e) })
			t.Run("fails", func(t *testing.T) { fails(t, e) })
			t.Run("cancelled", func(t *testing.T) { cancelled(t, e) })
		})
	}
	t.Run("secrets", func(t *testing.T) { secrets(t, e, &classic) })
	t.Run("none", func(t *testing.T) {
		if _, err := e.Inspect(t.Context(), "none:such"); !errors.Is(err, engine.ErrNoImage) {
			t.Errorf("got %v", err)
		}
		if err := e.Load(t.Context(), strings.NewReader("no tar")); err == nil {
			t.Error("nonsense was loaded")
		}
	})
}

func builds(t *testing.T, e *engine.Engine) {
	var steps []engine.Step
	id, err := e.Build(t.Context(), &engine.Build{
		Context:    contextOf(t, "ARG BASE\nFROM $BASE AS first\nCOPY hello /\nRUN cat /hello && echo made >/made\nFROM $BASE AS second\nRUN false\n"),
		Dockerfile: "Dockerfile", Target: "first", Args: map[string]string{"BASE": "base:test"}, Network: "none",
		Platform: source.Host().String(), Progress: func(s engine.Step) { steps = append(steps, s) }, NoCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(steps, func(s engine.Step) bool { return s.Log == "hello" && strings.Contains(s.Name, "RUN cat") }) {
		t.Errorf("the output is not among the steps: %+v", steps)
	}
	if err := e.Tag(t.Context(), id, "made:test"); err != nil {
		t.Fatal(err)
	}
	at, err := e.Inspect(t.Context(), "made:test")
	if err != nil || at.ID != id || len(at.DiffIDs) != 3 {
		t.Fatalf("got %+v, %v", at, err)
	}
	scratch := t.TempDir()
	img, err := e.Save(t.Context(), id, source.Host(), scratch)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if img.Config.String() != id || len(img.Layers) != 3 || img.Layers[1].DiffID.String() != at.DiffIDs[1] {
		t.Errorf("saved another image: %+v", img)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func fails(t *testing.T, e *engine.Engine) {
	_, err := e.Build(t.Context(), &engine.Build{
		Context: contextOf(t, "FROM base:test\nRUN echo the reason; exit 3\n"), Dockerfile: "Dockerfile", NoCache: true,
	})
	if err == nil || !strings.Contains(err.Error(), "RUN echo the reason; exit 3: ") || !strings.HasSuffix(err.Error(), "\nthe reason") {
		t.Errorf("got %v", err)
	}
}

func cancelled(t *testing.T, e *engine.Engine) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var begun time.Time
	_, err := e.Build(ctx, &engine.Build{
		Context: contextOf(t, "FROM base:test\nRUN echo begun; sleep 600\n"), Dockerfile: "Dockerfile", NoCache: true,
		Progress: func(s engine.Step) {
			if s.Log == "begun" {
				begun = time.Now()
				cancel(why)
			}
		},
	})
	if took := time.Since(begun); !errors.Is(err, why) || took > 2*time.Minute {
		t.Errorf("got %v after %v", err, took)
	}
}

func secrets(t *testing.T, e, classic *engine.Engine) {
	b := engine.Build{
		Dockerfile: "Dockerfile", NoCache: true,
		Secrets: map[string][]byte{"npmrc": []byte("//registry.example/:_authToken=tops3cret\n")},
	}
	dockerfile := "FROM base:test\nRUN --mount=type=secret,id=npmrc,target=/npmrc,required=true cat /npmrc; test -s /npmrc && echo used >/used\n"
	var logs strings.Builder
	b.Progress = func(s engine.Step) { logs.WriteString(s.Log + "\n") }
	b.Context = contextOf(t, dockerfile)
	id, err := e.Build(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(logs.String(), "tops3cret") || !strings.Contains(logs.String(), "[secret]") {
		t.Errorf("the log: %s", logs.String())
	}
	img, err := e.Save(t.Context(), id, source.Host(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	for i := range img.Layers {
		noSecret(t, &img.Layers[i])
	}
	b.Context, b.Secrets = contextOf(t, dockerfile), map[string][]byte{"other": []byte("x")}
	if _, err := e.Build(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a required secret that isn't there: %v", err)
	}
	b.Context = contextOf(t, dockerfile)
	if _, err := classic.Build(t.Context(), &b); err == nil || !strings.Contains(err.Error(), "no BuildKit") {
		t.Errorf("the old builder took secrets: %v", err)
	}
}

func noSecret(t *testing.T, l *source.Layer) {
	t.Helper()
	r, err := l.Open(t.Context(), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("tops3cret")) {
		t.Error("the secret is in a layer")
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"unix://" + t.TempDir() + "/none.sock", "nonsense"} {
		if _, err := engine.Connect(t.Context(), host); err == nil || !strings.Contains(err.Error(), "can't reach the Docker Engine") {
			t.Errorf("%s: %v", host, err)
		}
	}
}
