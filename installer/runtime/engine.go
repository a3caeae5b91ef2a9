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
	"github.com/quavon/quavon/runner/sandbox/docker"
)

// engine is what answers at a socket.
type engine struct{ socket string }

// get asks the engine; status is 0 when there is no answer.
func (e engine) get(ctx context.Context, path string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.socket)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("%s: status %d", path, resp.StatusCode)
	}
	if into == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into)
}

// engineInfo is what is read of the engine's /info.
type engineInfo struct {
	ID, ServerVersion, OperatingSystem, DockerRootDir string

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

func (r registered) same(o registered) bool {
	return r.Path == o.Path && r.Type == o.Type && slices.Equal(r.Args, o.Args)
}

// check refuses an entry of others that a sandbox can't be trusted to, and one whose
// program isn't there: dockerd only warns of that.
func (r registered) check() error {
	if weak, _ := docker.JudgeArgs(r.Args); len(weak) > 0 {
		return fault.New("Docker has runsc registered with "+strings.Join(weak, " ")+", which weakens its sandboxes",
			"take that out of daemon.json and reload dockerd; who needs it can register runsc under another name")
	}
	if !filepath.IsAbs(r.Path) {
		return nil // dockerd looks it up by itself
	}
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		return fault.New("Docker has runsc registered at "+r.Path+", where there is none",
			"put it there, or remove the entry from daemon.json and restart dockerd")
	}
	return nil
}

func (e engine) info(ctx context.Context) (i engineInfo, err error) {
	if e.socket == "" {
		return i, fault.New("there is no Docker engine", "install Docker Engine 24 or newer, or use --backend runsc")
	}
	if _, err := e.get(ctx, "/info", &i); err != nil {
		return i, fault.Wrap(err, "ask the Docker engine at "+e.socket, "start it: `systemctl start docker`")
	}
	return i, nil
}

// usable refuses engines whose runtimes aren't in a daemon.json of this host.
func (e engine) usable(ctx context.Context) (engineInfo, error) {
	i, err := e.info(ctx)
	if err != nil {
		return i, err
	}
	// Podman answers as Docker does, but for a path of its own.
	if _, err := e.get(ctx, "/v1/libpod/_ping", nil); err == nil {
		return i, fault.New("the engine at "+e.socket+" is Podman, whose runtimes are in containers.conf and not in a daemon.json",
			"install Docker Engine, and name its socket with DOCKER_HOST")
	}
	return i, i.usable()
}

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
	return nil
}

// scripts refuses an engine that can't run what it writes for a runtime with arguments.
func (i engineInfo) scripts() error {
	var st unix.Statfs_t
	if err := unix.Statfs(i.DockerRootDir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return fault.New(i.DockerRootDir+" is mounted noexec, where dockerd keeps the start script of a runtime with arguments",
			"mount it without noexec, or register runsc by hand without runtimeArgs")
	}
	return nil
}

// maxAsked bounds how many containers are looked at.
const maxAsked = 4096

// running are the names of running containers, of those of a runtime when it is named.
func (e engine) running(ctx context.Context, runtime string) ([]string, error) {
	var all []struct {
		ID    string `json:"Id"`
		Names []string
	}
	if _, err := e.get(ctx, "/containers/json", &all); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range all[:min(len(all), maxAsked)] {
		if runtime != "" {
			var one struct{ HostConfig struct{ Runtime string } }
			if status, err := e.get(ctx, "/containers/"+c.ID+"/json", &one); status == http.StatusNotFound {
				continue
			} else if err != nil {
				return nil, err
			}
			if one.HostConfig.Runtime != runtime {
				continue
			}
		}
		names = append(names, strings.TrimPrefix(strings.Join(c.Names, ","), "/"))
	}
	return names, nil
}
