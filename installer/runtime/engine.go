package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
)

// get asks the engine.
func (d *daemon) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into)
}

// engineInfo is what is read of the engine's /info.
type engineInfo struct {
	ServerVersion, OperatingSystem, DockerRootDir string

	SecurityOptions    []string
	Runtimes           map[string]registered
	LiveRestoreEnabled bool
}

// registered is a runtime that the engine has.
type registered struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs"`
	Type string   `json:"runtimeType"`
}

func (r registered) String() string {
	if r.Path == "" {
		return r.Type
	}
	return strings.Join(append([]string{r.Path}, r.Args...), " ")
}

// check refuses an entry whose program isn't there: dockerd only warns of that.
func (r registered) check() error {
	if !filepath.IsAbs(r.Path) {
		return nil // dockerd looks it up by itself
	}
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		return fault.New("Docker has runsc registered at "+r.Path+", where there is none",
			"put it there, or remove the entry from daemon.json and restart dockerd")
	}
	return nil
}

func (d *daemon) info(ctx context.Context) (i engineInfo, err error) {
	if err := d.get(ctx, "/info", &i); err != nil {
		return i, fault.Wrap(err, "ask the Docker engine at "+d.socket, "start it: `systemctl start docker`")
	}
	return i, nil
}

// usable refuses engines whose daemon.json is not where or what it seems.
func (i engineInfo) usable() error {
	rootless := func(o string) bool { return o == "name=rootless" || strings.HasPrefix(o, "name=rootless,") }
	switch {
	case strings.HasPrefix(i.DockerRootDir, "/var/snap/docker/"):
		return fault.New("Docker is the snap's, which can't run a runsc of this host",
			"`snap remove docker`, then install docker-ce or docker.io")
	case i.OperatingSystem == "Docker Desktop":
		return fault.New("Docker is Docker Desktop, in a machine of its own, where a runsc of this host isn't",
			"install Docker Engine on this host, and `docker context use default`")
	case slices.ContainsFunc(i.SecurityOptions, rootless):
		return fault.New("Docker is rootless: it has neither limits nor networks that isolate a job",
			"use a rootful engine, or --backend runsc")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(i.DockerRootDir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return fault.New(i.DockerRootDir+" is mounted noexec, where dockerd keeps the start script of a runtime with arguments",
			"mount it without noexec, or register runsc by hand without runtimeArgs")
	}
	return nil
}
