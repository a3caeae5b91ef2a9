package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// Labels that compose gives to all it makes.
const (
	labelProject = "com.docker.compose.project"
	labelService = "com.docker.compose.service"
	labelHash    = "com.docker.compose.config-hash"
	labelDir     = "com.docker.compose.project.working_dir"
)

// engine is the Docker engine at a socket.
type engine struct{ *client.Client }

func connect(ctx context.Context, socket string) (*engine, error) {
	const hint = "start it: `systemctl start docker`; `quavon doctor` tells more"
	if socket == "" {
		return nil, fault.New("there is no Docker engine", hint)
	}
	c, err := client.NewClientWithOpts(client.WithHost("unix://"+socket), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fault.Wrap(err, "use the Docker engine at "+socket, hint)
	}
	if _, err := c.Ping(ctx); err != nil {
		return nil, fault.Wrap(errors.Join(err, c.Close()), "the Docker engine at "+socket+" does not answer", hint)
	}
	return &engine{c}, nil
}

func ofProject() filters.Args { return filters.NewArgs(filters.Arg("label", labelProject+"="+Project)) }

// unit is a service's container.
type unit struct {
	id, service, hash string
	// dir is where its compose file was.
	dir string
	// state is created, running, restarting, exited and so on; health is "" without a
	// check, else starting, healthy or unhealthy.
	state, health string
	// said is what its last check printed.
	said     string
	restarts int
	exit     int
	image    string
}

// units lists the project's containers by service. One-off ones are left out.
func (e *engine) units(ctx context.Context) ([]unit, error) {
	list, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: ofProject()})
	if err != nil {
		return nil, fault.Wrap(err, "list the services' containers", "see the engine's log")
	}
	var units []unit
	for _, c := range list {
		if c.Labels["com.docker.compose.oneoff"] == "True" {
			continue
		}
		r, err := e.ContainerInspect(ctx, c.ID)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fault.Wrap(err, "look at a service's container", "see the engine's log")
		}
		units = append(units, unitOf(r))
	}
	slices.SortFunc(units, func(a, b unit) int { return strings.Compare(a.service, b.service) })
	return units, nil
}

func unitOf(r container.InspectResponse) unit {
	labels := r.Config.Labels
	u := unit{
		id: r.ID, service: labels[labelService], hash: labels[labelHash], dir: labels[labelDir], image: r.Image, restarts: r.RestartCount,
	}
	if r.State == nil {
		return u
	}
	u.state, u.exit = r.State.Status, r.State.ExitCode
	if h := r.State.Health; h != nil && h.Status != container.NoHealthcheck {
		u.health = h.Status
		if n := len(h.Log); n > 0 {
			u.said = strings.TrimSpace(h.Log[n-1].Output)
		}
	}
	return u
}

// logLines of a container that are shown, and the bytes that are read for them.
const (
	logLines = 8
	maxLog   = 64 << 10
)

// lastLines are the end of a container's log.
func (e *engine) lastLines(ctx context.Context, id string) []string {
	r, err := e.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: fmt.Sprint(logLines)})
	if err != nil {
		return []string{"(its log can't be read: " + err.Error() + ")"}
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := stdcopy.StdCopy(&b, &b, io.LimitReader(r, maxLog)); err != nil && b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// down removes the project's containers and networks. The runner goes first: it drains.
// What belongs to the installation in another directory stays, and then alone is false:
// networks and volumes have no other name, and so stay with it.
func (e *engine) down(ctx context.Context, dir string, show phase.Reporter) (alone bool, err error) {
	units, err := e.units(ctx)
	if err != nil {
		return false, err
	}
	slices.SortStableFunc(units, func(a, b unit) int { return stopOrder[a.service] - stopOrder[b.service] })
	for _, u := range units {
		if u.foreign(dir) {
			continue
		}
		if err := e.remove(ctx, u); err != nil {
			return false, err
		}
	}
	if theirs := others(units, dir); theirs != "" {
		show.Line("networks and volumes of the project " + Project + " stay, as the services of " + theirs + " have them")
		return false, nil
	}
	return true, e.removeNetworks(ctx)
}

// stop stops a service's container, in the time that its configuration gives it.
func (e *engine) stop(ctx context.Context, u unit) error {
	if err := e.ContainerStop(ctx, u.id, container.StopOptions{}); err != nil && !errdefs.IsNotFound(err) {
		return fault.Wrap(err, "stop the service "+u.service, "see the engine's log")
	}
	return nil
}

func (e *engine) remove(ctx context.Context, u unit) error {
	if err := e.stop(ctx, u); err != nil {
		return err
	}
	err := e.ContainerRemove(ctx, u.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fault.Wrap(err, "remove the container of "+u.service, "see the engine's log")
	}
	return nil
}

// stopOrder puts others' services between those that need ours and ours.
var stopOrder = map[string]int{Runner: -1, Egress: 1, Guard: 2, Valkey: 3}

func (e *engine) removeNetworks(ctx context.Context) error {
	list, err := e.NetworkList(ctx, network.ListOptions{Filters: ofProject()})
	if err != nil {
		return fault.Wrap(err, "list the networks", "see the engine's log")
	}
	for _, n := range list {
		if err := e.NetworkRemove(ctx, n.ID); err != nil && !errdefs.IsNotFound(err) {
			return fault.Wrap(err, "remove the network "+n.Name, "disconnect what else is in it: `docker network inspect "+n.Name+"`")
		}
	}
	return nil
}

// imageID is what the engine calls a locked image: its config's digest, or with the
// containerd image store another one. Its layers must be the lock's.
func (e *engine) imageID(ctx context.Context, l *lock.File, name string) (string, error) {
	_, p := l.Find(name, source.Host())
	if p == nil {
		return "", noImage(name)
	}
	hint := "run `quavon install` again: it builds what is missing"
	for _, ref := range []string{p.Config, tag(name, p.Config)} {
		r, err := e.ImageInspect(ctx, ref)
		switch {
		case errdefs.IsNotFound(err):
			continue
		case err != nil:
			return "", fault.Wrap(err, "look for the image "+name, "see the engine's log")
		case !slices.Equal(r.RootFS.Layers, p.DiffIDs):
			return "", fault.New("the engine's image "+ref+" isn't the one that the lock pins", hint)
		}
		return r.ID, nil
	}
	return "", fault.New("the engine has no image "+name+" as the lock pins it", hint)
}

func noImage(name string) error {
	return fault.New("the lock has no image "+name+" for "+source.Host().String(),
		"declare it in images.yaml, as the one that Quavon ships does, or remove that file")
}

// tag is the name that a built image has in the engine.
func tag(name, config string) string {
	_, digits, _ := strings.Cut(config, ":")
	return "quavon/" + name + ":" + digits[:min(12, len(digits))]
}

// removeImage removes an image by its tag. One that is in use stays.
func (e *engine) removeImage(ctx context.Context, tag string) error {
	_, err := e.ImageRemove(ctx, tag, image.RemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fault.Wrap(err, "remove the image "+tag, "see the engine's log")
	}
	return nil
}
