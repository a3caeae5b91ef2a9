package imagebuild_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
)

// TestReady: a host without mmdebstrap can build on a base that its engine has, or that is
// fetched, and is told before anything is begun that it can't make one.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name, base string
		has        bool
		want       string
	}{
		{"must be made", "recipe: bases/debian", false, "the base debian must be made"},
		{"is there", "recipe: bases/debian", true, ""},
		{"is fetched", "ref: \"registry.example/base@sha256:" + strings.Repeat("0", 64) + "\"", false, ""},
	} {
		p := &project{t: t, dir: t.TempDir()}
		p.write("images.yaml", "schemaVersion: 1\nbases: {debian: {"+c.base+"}}\nimages: {app: {context: app, bases: {BASE: debian}, platforms: ["+source.Host().String()+"]}}\n")
		p.write("app/Dockerfile", "ARG BASE\nFROM $BASE\n")
		p.write("bases/debian/recipe.yaml", "suite: trixie\n")
		socket := dockertest.Fake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/_ping"):
				w.Header().Set("Api-Version", "1.45")
			case c.has && strings.Contains(r.URL.Path, "/images/quavon.invalid/base-debian:"):
				_ = json.NewEncoder(w).Encode(map[string]string{"Id": "sha256:" + strings.Repeat("1", 64)})
			default:
				http.NotFound(w, r)
			}
		}))
		p.set = func(b *imagebuild.Builder) {
			b.Connect = func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, "unix://"+socket) }
		}
		b := p.builder()
		t.Setenv("PATH", t.TempDir())
		err := b.Ready(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Hint(err), "apt-get install mmdebstrap")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
