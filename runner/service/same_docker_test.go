package service_test

import (
	"context"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/servicetest"
	"github.com/quavon/quavon/runner/state/statetest"
)

// onDocker makes the options of a runner on a Docker backend, and the image of its
// jobs.
func onDocker(name string, engine func(testing.TB) *dockertest.Engine) options {
	return func(t testing.TB, q *queue.Queue) (service.Options, string) {
		t.Helper()
		e := engine(t)
		l := e.Add(t, dockertest.Busybox(t, v1.Config{User: "app"}))
		image := l.Images[0].Platforms[0].Config
		st := statetest.Dir(t)
		backend, err := docker.New(docker.Config{Name: name, Host: docker.Endpoint{URL: e.Host, From: "test"}, Lock: l, State: st})
		if err != nil {
			t.Fatal(err)
		}
		images := func(context.Context) ([]string, error) { return []string{image}, nil }
		o := servicetest.Options(t, q)
		r := &runner.Runner{Backend: backend, Guest: sandboxtest.Guest(t), Spool: st.Path(), Log: servicetest.Log(t)}
		o.Runner, o.Backend, o.Images, o.Dir = r, backend, images, st.Path("runner", o.ID)
		o.Identify = service.Subject{Backend: backend, Guest: r.Guest}.Identify
		o.Probe = servicetest.Starts{Runner: r, Backend: backend, Images: images, OwnKernel: name == docker.Runsc}.Probe
		return o, image
	}
}
