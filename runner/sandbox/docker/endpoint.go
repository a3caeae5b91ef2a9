package docker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// Endpoint is where an engine is and who said so.
type Endpoint struct {
	// URL is unix:///path.
	URL string
	// From is "DOCKER_HOST", "DOCKER_CONTEXT", the client's configuration file or
	// "default".
	From string
}

// Path is the socket's.
func (e Endpoint) Path() string { return strings.TrimPrefix(e.URL, "unix://") }

const defaultSocket = "unix:///var/run/docker.sock"

// Surroundings is what Find looks at.
type Surroundings struct {
	// Env looks a variable up, "" when it isn't set.
	Env func(string) string
	// Home is the user's directory, "" for none.
	Home string
}

// Find returns the engine that the operator's docker command would use:
// DOCKER_HOST, else the context in DOCKER_CONTEXT, else the current one, else the
// usual socket. What is named and can't be used is an error; nothing falls back.
func Find(s Surroundings) (Endpoint, error) {
	if host := s.Env("DOCKER_HOST"); host != "" {
		return checked(Endpoint{host, "DOCKER_HOST"})
	}
	dir := s.Env("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(s.Home, ".docker")
	}
	name, from := s.Env("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		from = filepath.Join(dir, "config.json")
		var err error
		if name, err = currentContext(from); err != nil {
			return Endpoint{}, fault.Wrap(err, "read the Docker client's configuration", "correct "+from+", or set DOCKER_HOST")
		}
	}
	if name == "" || name == "default" {
		return Endpoint{defaultSocket, "default"}, nil
	}
	host, err := contextHost(dir, name)
	if err != nil {
		return Endpoint{}, fault.Wrap(err, fmt.Sprintf("read the Docker context %q that %s names", name, from),
			"see `docker context ls`, or set DOCKER_HOST")
	}
	return checked(Endpoint{host, fmt.Sprintf("the context %q of %s", name, from)})
}

// maxClientFile bounds what is read of the Docker client's files.
const maxClientFile = 1 << 20

func readClientFile(path string, into any) error {
	text, err := bounded.ReadFile(path, maxClientFile)
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(into)
}

func currentContext(path string) (string, error) {
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	err := readClientFile(path, &config)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	return config.CurrentContext, err
}

// contextHost reads a context's file, which lies below the sha256 of its name.
func contextHost(dir, name string) (string, error) {
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Name      string
		Endpoints map[string]struct{ Host string }
	}
	err := readClientFile(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), &meta)
	if err != nil {
		return "", err
	}
	host := meta.Endpoints["docker"].Host
	if meta.Name != name || host == "" {
		return "", errors.New("its file names no Docker endpoint")
	}
	return host, nil
}

// checked refuses every engine but one at a socket of this host.
func checked(e Endpoint) (Endpoint, error) {
	scheme, rest, ok := strings.Cut(e.URL, "://")
	what := fmt.Sprintf("%s names %q", e.From, e.URL)
	switch {
	case !ok:
		return e, fault.New(what+", which has no scheme", "write unix:///PATH")
	case scheme == "unix" && filepath.IsAbs(rest):
		return e, nil
	case scheme == "unix":
		return e, fault.New(what+", which is no absolute path", "write unix:///PATH")
	case scheme == "ssh" || scheme == "tcp" || scheme == "http" || scheme == "https":
		return e, fault.New(what+", an engine on another host: what is checked here would describe the wrong machine",
			"run quavon on that host, or name a socket of this one: DOCKER_HOST=unix:///var/run/docker.sock")
	}
	return e, fault.New(fmt.Sprintf("%s, and %q is no scheme for an engine here", what, scheme), "write unix:///PATH")
}
