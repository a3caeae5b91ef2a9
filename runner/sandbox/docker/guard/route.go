package guard

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// route is one thing a client may ask for.
type route struct {
	method  string
	path    *regexp.Regexp
	handler func(*call) error
	// query lists the parameters that may be there, with the values they may have.
	query map[string]*regexp.Regexp
	// body says whether there may be one, raw that it isn't JSON.
	body, raw bool
	// hijack says that the connection is taken over.
	hijack bool
	// bare says that there may be no version in the path.
	bare bool
}

// call is a request on its way.
type call struct {
	w http.ResponseWriter
	r *http.Request
	// version is "/v1.NN" or "".
	version string
	// name is what the path names, q the checked query.
	name string
	q    url.Values
}

// Versions of the API that pass: 1.43 is Engine 24's, and what a newer one would
// add nobody has looked at.
const minAPI, maxAPI = 43, 51

var versioned = regexp.MustCompile(`^/v1\.([0-9]{2})(/.*)$`)

const (
	one      = `^(1|true|True)$`
	zero     = `^(0|false|False)$`
	idOrName = `([0-9a-f]{64}|quavon-[0-9a-f]{12}-[a-z0-9-]{1,64})`
)

var fullID = regexp.MustCompile(`^[0-9a-f]{64}$`)

func values(pairs ...string) map[string]*regexp.Regexp {
	q := map[string]*regexp.Regexp{}
	for i := 0; i < len(pairs); i += 2 {
		q[pairs[i]] = regexp.MustCompile(pairs[i+1])
	}
	return q
}

// table lists all that passes.
func (g *Guard) table() []route {
	path := func(p string) *regexp.Regexp { return regexp.MustCompile("^" + p + "$") }
	anything := `^.+$` // the header bounds it
	return []route{
		{method: "GET", path: path(`/_ping`), handler: g.ping, bare: true},
		{method: "HEAD", path: path(`/_ping`), handler: g.ping, bare: true},
		{method: "GET", path: path(`/version`), handler: g.version, bare: true},
		{method: "GET", path: path(`/info`), handler: g.info},
		{method: "GET", path: path(`/images/([a-z0-9][a-zA-Z0-9._:/@-]{0,300})/json`), handler: g.image},
		{method: "GET", path: path(`/containers/json`), handler: g.containers, query: values("all", one, "filters", anything)},
		{
			method: "POST", path: path(`/containers/create`), handler: g.create, body: true,
			query: values("name", `^quavon-[0-9a-f]{12}-[a-z0-9-]{1,64}$`),
		},
		{method: "GET", path: path(`/containers/` + idOrName + `/json`), handler: g.inspect},
		{method: "GET", path: path(`/containers/` + idOrName + `/stats`), handler: g.stats, query: values("stream", zero, "one-shot", one)},
		{method: "POST", path: path(`/containers/` + idOrName + `/start`), handler: g.start},
		{method: "POST", path: path(`/containers/` + idOrName + `/wait`), handler: g.wait, query: values("condition", `^next-exit$`)},
		{
			method: "POST", path: path(`/containers/` + idOrName + `/attach`), handler: g.attach, hijack: true,
			query: values("stream", one, "stdin", one, "stdout", one, "stderr", one),
		},
		{method: "DELETE", path: path(`/containers/` + idOrName), handler: g.remove, query: values("force", one, "v", one)},
		{method: "GET", path: path(`/containers/` + idOrName + `/archive`), handler: g.readFile, query: values("path", anything)},
		{
			method: "HEAD", path: path(`/containers/` + idOrName + `/archive`), handler: g.statPath,
			query: values("path", "^"+regexp.QuoteMeta(object.CoveredDir)+"$"),
		},
		{
			method: "PUT", path: path(`/containers/` + idOrName + `/archive`), handler: g.fill, body: true, raw: true,
			query: values("path", anything, "noOverwriteDirNonDir", one),
		},
		{method: "GET", path: path(`/volumes`), handler: g.volumes, query: values("filters", anything)},
		{method: "POST", path: path(`/volumes/create`), handler: g.createVolume, body: true},
		{method: "DELETE", path: path(`/volumes/(quavon-scratch-[0-9a-f]{12}-[a-z0-9-]{1,64})`), handler: g.removeVolume},
	}
}

// serve finds the route of a request and checks what all of them have.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request) error {
	c := &call{w: w, r: r}
	path := r.URL.Path
	if r.URL.RawPath != "" || r.URL.Host != "" || r.URL.User != nil || r.URL.Opaque != "" || r.URL.Fragment != "" {
		return refuse("an unusual URL")
	}
	if m := versioned.FindStringSubmatch(path); m != nil {
		if n, _ := strconv.Atoi(m[1]); n < minAPI || n > maxAPI {
			return &refusal{http.StatusBadRequest, "version 1." + m[1] + " of the API: the guard knows 1.43 to 1.51"}
		}
		c.version, path = "/v1."+m[1], m[2]
	}
	for i := range g.routes {
		rt := &g.routes[i]
		m := rt.path.FindStringSubmatch(path)
		if m == nil || rt.method != r.Method || c.version == "" && !rt.bare {
			continue
		}
		if len(m) > 1 {
			c.name = m[1]
		}
		if err := rt.check(c); err != nil {
			return err
		}
		return rt.handler(c)
	}
	if path == "/v1/libpod/_ping" { // asked to find out, and so no reason to warn
		return &upstreamError{http.StatusNotFound, "this is no Podman"}
	}
	return refuse("this request is none of the docker backend's")
}

// check refuses parameters, headers and bodies that the route doesn't have.
func (rt *route) check(c *call) error {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return refuse("a query that can't be read")
	}
	for name, list := range q {
		may := rt.query[name]
		if may == nil || len(list) != 1 || !may.MatchString(list[0]) {
			return refuse("the parameter %.60q", name)
		}
	}
	c.q = q
	if up := c.r.Header.Values("Upgrade"); !rt.hijack && len(up) > 0 || rt.hijack && !slices.Equal(up, []string{"tcp"}) {
		return refuse("a change of protocol")
	}
	if rt.hijack && c.r.ContentLength > 0 || !rt.body && (c.r.ContentLength > 0 || len(c.r.TransferEncoding) > 0) {
		return refuse("a body where none belongs")
	}
	limit := int64(maxBody)
	if rt.raw {
		limit = maxGuest + 64<<10
	}
	if !rt.hijack {
		c.r.Body = http.MaxBytesReader(c.w, c.r.Body, limit)
	}
	return nil
}
