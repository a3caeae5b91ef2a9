package guard

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

// ping answers as the engine does, with the headers that a client negotiates by.
func (g *Guard) ping(c *call) error {
	resp, err := g.send(c.r.Context(), c.r.Method, "/_ping", nil, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for _, h := range []string{"Api-Version", "Ostype"} {
		c.w.Header().Set(h, resp.Header.Get(h))
	}
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodGet {
		_, _ = io.WriteString(c.w, "OK") // the client may have gone
	}
	return nil
}

// pass asks the engine and answers with what into has of it.
func (g *Guard) pass(c *call, path string, q url.Values, into any) error {
	if err := g.get(c.r.Context(), c.version+path, q, into); err != nil {
		return err
	}
	answer(c.w, http.StatusOK, into)
	return nil
}

func (g *Guard) version(c *call) error {
	type engineVersion struct{ Version, ApiVersion, MinAPIVersion, Os, Arch, KernelVersion string }
	return g.pass(c, "/version", nil, &engineVersion{})
}

// engineRuntime is a runtime as the engine lists it.
type engineRuntime struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs,omitempty"`
}

// engineInfo is what the backend reads of /info.
type engineInfo struct {
	ID, OSType, Architecture, OperatingSystem, KernelVersion, ServerVersion string
	DockerRootDir, CgroupDriver, CgroupVersion, Driver                      string
	MemoryLimit, SwapLimit, PidsLimit                                       bool
	CPUCfsPeriod                                                            bool `json:"CpuCfsPeriod"`
	CPUCfsQuota                                                             bool `json:"CpuCfsQuota"`
	NCPU                                                                    int
	MemTotal                                                                int64
	SecurityOptions                                                         []string
	Runtimes                                                                map[string]engineRuntime
}

// info shows only the runtimes that may be used.
func (g *Guard) info(c *call) error {
	var all, shown engineInfo
	if err := g.get(c.r.Context(), c.version+"/info", nil, &all); err != nil {
		return err
	}
	shown = all
	shown.Runtimes = map[string]engineRuntime{}
	for _, name := range g.Runtimes {
		if r, ok := all.Runtimes[name]; ok {
			shown.Runtimes[name] = r
		}
	}
	answer(c.w, http.StatusOK, shown)
	return nil
}

// engineImage is what the backend reads of an image.
type engineImage struct {
	ID               string `json:"Id"`
	Os, Architecture string
	RootFS           struct {
		Type   string
		Layers []string
	}
	Config *struct {
		User, WorkingDir     string
		Env, Entrypoint, Cmd []string
		Volumes              map[string]struct{} `json:",omitempty"`
	}
}

// image describes an image of the lock.
func (g *Guard) image(c *call) error {
	if !g.images[c.name] {
		return refuse("the image %.200q isn't one of the lock's by digest", c.name)
	}
	var img engineImage
	if err := g.get(c.r.Context(), c.version+"/images/"+c.name+"/json", nil, &img); err != nil {
		return err
	}
	if !g.images[img.ID] {
		return refuse("the engine's image isn't the lock's")
	}
	answer(c.w, http.StatusOK, img)
	return nil
}

// filters asks only for objects with our label, whatever else the client asks for.
func filters(q url.Values) (url.Values, error) {
	var asked map[string]map[string]bool
	if raw := q.Get("filters"); raw != "" {
		v, err := parse([]byte(raw))
		if err == nil {
			err = conforms(v, map[string]keys{"filters": {"label": ""}}, "filters")
		}
		if err == nil {
			err = json.Unmarshal([]byte(raw), &asked)
		}
		if err != nil {
			return nil, refuse("the filters: %v", err)
		}
	}
	labels := map[string]bool{ourLabel: true}
	for l, on := range asked["label"] {
		labels[l] = on
	}
	raw, err := json.Marshal(map[string]any{"label": labels})
	if err != nil {
		return nil, err
	}
	return url.Values{"filters": {string(raw)}}, nil
}
