package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

const defaultDockerHost = "unix:///var/run/docker.sock"

// Daemon finds an image the Docker daemon has, by name or ID. The daemon sends it
// as an archive, which is kept in scratch until the image is closed.
func Daemon(ctx context.Context, ref string, s Select, scratch string) (*Image, error) {
	img, err := daemon(ctx, ref, s, scratch)
	if err != nil {
		hint := fault.Hint(err)
		if hint == "" {
			hint = "check with `docker image inspect " + ref + "` that the daemon runs and has it"
		}
		return nil, fault.Wrap(err, "can't get "+ref+" from the Docker daemon", hint)
	}
	img.Origin = "docker-daemon:" + ref
	return img, nil
}

func daemon(ctx context.Context, ref string, s Select, scratch string) (*Image, error) {
	client, base, err := dockerClient(os.Getenv("DOCKER_HOST"))
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/images/get?names="+url.QueryEscape(ref), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("it answers %s: %q", resp.Status, strings.TrimSpace(string(why)))
	}
	f, err := spool(resp.Body, scratch)
	if err != nil {
		return nil, err
	}
	return tarFile(ctx, f, s)
}

// dockerClient speaks to the daemon at host, as DOCKER_HOST has it.
func dockerClient(host string) (*http.Client, string, error) {
	if host == "" {
		host = defaultDockerHost
	}
	scheme, addr, ok := strings.Cut(host, "://")
	switch {
	case ok && scheme == "unix":
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", addr)
		}
		return &http.Client{Transport: &http.Transport{DialContext: dial}}, "http://docker", nil
	case ok && scheme == "tcp":
		return &http.Client{Transport: &http.Transport{}}, "http://" + addr, nil
	}
	return nil, "", fault.Wrap(errors.New("DOCKER_HOST is neither unix:// nor tcp://"), "can't reach the Docker daemon",
		"run `docker save` where the daemon can be reached and import the file")
}
