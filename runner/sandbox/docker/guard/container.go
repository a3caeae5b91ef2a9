package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// ourLabel is on every object of ours.
const ourLabel = object.LabelRole

// inspected is what the backend, and the guard itself, read of a container.
type inspected struct {
	ID     string `json:"Id"`
	Name   string
	Image  string
	State  containerState
	Config struct {
		Image  string
		Labels map[string]string
	}
	HostConfig hostConfig
	Mounts     []mounted `json:",omitempty"`
}

type containerState struct {
	Status             string
	Running, OOMKilled bool
	ExitCode           int
}

type mounted struct {
	Type, Name, Destination string
	RW                      bool
}

// ours asks the engine for a container and refuses one that isn't a sandbox's or a
// helper. What follows is asked by the id it returns, since names can move.
func (g *Guard) ours(c *call, roles ...string) (*inspected, error) {
	var i inspected
	if err := g.get(c.r.Context(), c.version+"/containers/"+c.name+"/json", nil, &i); err != nil {
		return nil, err
	}
	if err := checkLabels(i.Config.Labels, roles...); err != nil || !fullID.MatchString(i.ID) {
		return nil, &refusal{http.StatusNotFound, "no such container of quavon's"}
	}
	return &i, nil
}

var anyRole = []string{object.RoleJob, object.RoleHelper}

func (g *Guard) inspect(c *call) error {
	i, err := g.ours(c, anyRole...)
	if err != nil {
		return err
	}
	answer(c.w, http.StatusOK, i)
	return nil
}

// listedContainer is what the backend reads of a list.
type listedContainer struct {
	ID            string `json:"Id"`
	Names         []string
	Labels        map[string]string
	State, Status string
}

func (g *Guard) containers(c *call) error {
	q, err := filters(c.q)
	if err != nil {
		return err
	}
	q.Set("all", "1")
	var list []listedContainer
	if err := g.get(c.r.Context(), c.version+"/containers/json", q, &list); err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(l listedContainer) bool { return checkLabels(l.Labels, anyRole...) != nil })
	answer(c.w, http.StatusOK, append([]listedContainer{}, list...))
	return nil
}

func (g *Guard) create(c *call) error {
	var b createBody
	if err := decode(c.r.Body, schemas, "create", &b); err != nil {
		return err
	}
	if err := g.checkCreate(c.q.Get("name"), &b); err != nil {
		return refuse("create: %v", err)
	}
	look := func(name string) (v volume, err error) {
		return v, g.get(c.r.Context(), c.version+"/volumes/"+name, nil, &v)
	}
	if err := checkMounts(&b, look); err != nil {
		return refuse("create: %v", err)
	}
	return g.post(c, "/containers/create", url.Values{"name": {c.q.Get("name")}}, b, &struct {
		ID       string `json:"Id"`
		Warnings []string
	}{})
}

// post sends a body of ours and answers with what into has of the engine's.
func (g *Guard) post(c *call, path string, q url.Values, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := g.send(c.r.Context(), http.MethodPost, c.version+path, q, bytes.NewReader(data), "application/json", http.StatusCreated)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return err
	}
	answer(c.w, http.StatusCreated, into)
	return nil
}

func (g *Guard) start(c *call) error {
	i, err := g.ours(c, object.RoleJob)
	if err != nil {
		return err
	}
	return g.command(c, http.MethodPost, "/containers/"+i.ID+"/start", nil)
}

func (g *Guard) remove(c *call) error {
	i, err := g.ours(c, anyRole...)
	if err != nil {
		return err
	}
	return g.command(c, http.MethodDelete, "/containers/"+i.ID, url.Values{"force": {"1"}, "v": {"1"}})
}

// command asks for something that is answered without content.
func (g *Guard) command(c *call, method, path string, q url.Values) error {
	resp, err := g.send(c.r.Context(), method, c.version+path, q, nil, "", http.StatusNoContent, http.StatusNotModified)
	if err != nil {
		return err
	}
	resp.Body.Close()
	c.w.WriteHeader(resp.StatusCode)
	return nil
}

// stats passes what the backend reads of the limits.
func (g *Guard) stats(c *call) error {
	i, err := g.ours(c, object.RoleJob)
	if err != nil {
		return err
	}
	return g.pass(c, "/containers/"+i.ID+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}}, &struct {
		PidsStats struct {
			Current uint64 `json:"current"`
			Limit   uint64 `json:"limit"`
		} `json:"pids_stats"`
		MemoryStats struct {
			Usage uint64 `json:"usage"`
			Limit uint64 `json:"limit"`
		} `json:"memory_stats"`
	}{})
}

// wait answers at once, which tells the client that it is waiting, and again when
// the container ends.
func (g *Guard) wait(c *call) error {
	i, err := g.ours(c, object.RoleJob)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	q := url.Values{"condition": {"next-exit"}}
	resp, err := g.send(ctx, http.MethodPost, c.version+"/containers/"+i.ID+"/wait", q, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return nil // the client has gone
	}
	var ended struct {
		StatusCode int64
		Error      *struct{ Message string } `json:",omitempty"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&ended); err != nil {
		panic(http.ErrAbortHandler) // the status is written: only a cut tells the client
	}
	_ = json.NewEncoder(c.w).Encode(ended) // the client may have gone
	return nil
}
