package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

// client makes a Docker client's configuration with one context.
func clientFiles(t *testing.T, current, context, host string) string {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".docker")
	sum := sha256.Sum256([]byte(context))
	meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]))
	if err := os.MkdirAll(meta, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(dir, "config.json"): fmt.Sprintf(`{"currentContext":%q,"auths":{}}`, current),
		filepath.Join(meta, "meta.json"):  fmt.Sprintf(`{"Name":%q,"Metadata":{},"Endpoints":{"docker":{"Host":%q,"SkipTLSVerify":false}}}`, context, host),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// Cases DK-02, DK-03 and DK-04.
func TestFind(t *testing.T) {
	t.Parallel()
	desktop := "unix:///home/u/.docker/desktop/docker.sock"
	for name, c := range map[string]struct {
		env                    map[string]string
		current, context, host string
		url, from, refused     string
	}{
		"nothing":                {url: defaultSocket, from: "default"},
		"current context":        {current: "desktop-linux", context: "desktop-linux", host: desktop, url: desktop, from: `"desktop-linux"`},
		"the default context":    {current: "default", url: defaultSocket, from: "default"},
		"DOCKER_CONTEXT wins":    {env: map[string]string{"DOCKER_CONTEXT": "b"}, current: "a", context: "b", host: "unix:///b", url: "unix:///b", from: "DOCKER_CONTEXT"},
		"DOCKER_HOST wins":       {env: map[string]string{"DOCKER_HOST": "unix:///h", "DOCKER_CONTEXT": "b"}, current: "a", url: "unix:///h", from: "DOCKER_HOST"},
		"ssh":                    {env: map[string]string{"DOCKER_HOST": "ssh://u@h"}, refused: "wrong machine"},
		"tcp":                    {env: map[string]string{"DOCKER_HOST": "tcp://10.0.0.5:2376"}, refused: "wrong machine"},
		"npipe":                  {env: map[string]string{"DOCKER_HOST": "npipe:////./pipe/docker_engine"}, refused: "no scheme"},
		"fd":                     {env: map[string]string{"DOCKER_HOST": "fd://"}, refused: "no scheme"},
		"a bare path":            {env: map[string]string{"DOCKER_HOST": "/var/run/docker.sock"}, refused: "has no scheme"},
		"a relative path":        {env: map[string]string{"DOCKER_HOST": "unix://docker.sock"}, refused: "no absolute path"},
		"a context that isn't":   {env: map[string]string{"DOCKER_CONTEXT": "missing"}, refused: "no such file"},
		"a context on a machine": {current: "far", context: "far", host: "ssh://u@h", refused: "wrong machine"},
	} {
		env := func(k string) string { return c.env[k] }
		got, err := Find(Surroundings{Env: env, Home: clientFiles(t, c.current, c.context, c.host)})
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) || fault.Hint(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || got.URL != c.url || !strings.Contains(got.From, c.from):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
