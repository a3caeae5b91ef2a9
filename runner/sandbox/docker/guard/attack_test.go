package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/docker/guard"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

var (
	engine    *dockertest.Engine
	engineErr error
)

// One engine serves all tests of this binary.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "quavon-engine-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if engine, engineErr = dockertest.Start(filepath.Join(dir, "engine")); engineErr == nil {
			defer engine.Stop()
		}
		return m.Run()
	}())
}

const (
	instance = "0123456789ab"
	prefix   = "/v1.45"
)

// field is a guard before a real engine, and what an attacker has to hand.
type field struct {
	t                 *testing.T
	guard, engine     *http.Client
	guardPath         string
	image             string
	n                 int
	container, volume string // not ours
	before            []string
}

// patience is for what an engine on a busy machine takes.
const patience = 2 * time.Minute

func over(path string) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

func newField(t *testing.T) *field {
	t.Helper()
	dockertest.Require(t, engine, engineErr)
	l := engine.Add(t, dockertest.Busybox(t, v1.Config{}))
	socket := strings.TrimPrefix(engine.Host, "unix://")
	path := filepath.Join(t.TempDir(), "guard.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_ = guard.New(guard.Config{Upstream: socket, Runtimes: []string{"runsc"}, Lock: l}).Serve(ctx, listener)
	}()
	f := &field{t: t, guard: over(path), engine: over(socket), guardPath: path, image: l.Images[0].Platforms[0].Config}
	f.volume = "foreign-" + strings.ToLower(t.Name())
	f.must(f.engine, "POST", prefix+"/volumes/create", fmt.Sprintf(`{"Name":%q}`, f.volume), 201)
	f.container = f.id(f.must(f.engine, "POST", prefix+"/containers/create?name=foreign-"+strings.ToLower(t.Name()),
		fmt.Sprintf(`{"Image":%q,"Cmd":["sleep","10000"],"OpenStdin":true}`, f.image), 201))
	f.must(f.engine, "POST", prefix+"/containers/"+f.container+"/start", "", 204)
	f.before = engine.Objects()
	t.Cleanup(func() {
		f.do(f.engine, "DELETE", prefix+"/containers/"+f.container+"?force=1", "")
		f.do(f.engine, "DELETE", prefix+"/volumes/"+f.volume, "")
	})
	return f
}

// do sends a request whose URL is sent as it is.
func (f *field) do(c *http.Client, method, url, body string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequest(method, "http://docker/", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.URL.Opaque = url
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

func (f *field) must(c *http.Client, method, url, body string, want int) string {
	f.t.Helper()
	code, answer := f.do(c, method, url, body)
	if code != want {
		f.t.Fatalf("%s %s: %d %s", method, url, code, answer)
	}
	return answer
}

func (f *field) id(answer string) string {
	f.t.Helper()
	var r struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		f.t.Fatal(err)
	}
	return r.ID
}

type m = map[string]any

// sandboxID is one that hasn't been used.
func (f *field) sandboxID() string {
	f.n++
	return fmt.Sprintf("%s-%d", strings.ToLower(f.t.Name()), f.n)
}

func labels(role, id string) m {
	return m{object.LabelRole: role, object.LabelSandbox: id, object.LabelInstance: instance, object.LabelBackend: "docker-runsc"}
}

// good is a body that passes.
func (f *field) good(id string) m {
	return m{
		"Image": f.image, "User": "0:0", "WorkingDir": "/", "Entrypoint": object.Command(), "Env": object.Env(0),
		"Healthcheck": m{"Test": []string{"NONE"}}, "Labels": labels(object.RoleJob, id),
		"AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "OpenStdin": true, "StdinOnce": true,
		"HostConfig": m{
			"Runtime": "runsc", "NetworkMode": "none", "IpcMode": "none", "LogConfig": m{"Type": "none"}, "RestartPolicy": m{"Name": "no"},
			"CapDrop": []string{"ALL"}, "CapAdd": object.AgentCaps, "SecurityOpt": []string{object.NoNewPrivileges}, "ReadonlyRootfs": true,
			"Tmpfs": m{sandbox.GuestDir: object.AgentDir, "/tmp": object.Closed},
		},
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (f *field) createURL(id string) string {
	return prefix + "/containers/create?name=" + object.Container(instance, id)
}

// refused sends an attack and wants it refused by the guard itself.
func (f *field) refused(what, method, url, body string) {
	f.t.Helper()
	code, answer := f.do(f.guard, method, url, body)
	if code != 400 && code != 403 && code != 404 {
		f.t.Errorf("%s: %d %.300s", what, code, answer)
	}
	f.unchanged(what)
}

// unchanged compares the engine's objects with those there were, of which the tests
// remove what they make.
func (f *field) unchanged(what string) {
	f.t.Helper()
	if after := engine.Objects(); !slices.Equal(f.before, after) {
		f.t.Errorf("%s: the engine has changed:\n%q\n%q", what, f.before, after)
		f.before = after
	}
}

// change is good with one thing changed in the body or, with a dot, in HostConfig.
func (f *field) change(id, key string, v any) string {
	b := f.good(id)
	if host, ok := strings.CutPrefix(key, "."); ok {
		h, _ := b["HostConfig"].(m)
		h[host] = v
		return text(f.t, b)
	}
	b[key] = v
	return text(f.t, b)
}

func TestCreateAttacks(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	good := text(t, f.good(id))
	// The control: what is changed below passes unchanged.
	made := f.id(f.must(f.guard, "POST", f.createURL(id), good, 201))
	f.must(f.guard, "DELETE", prefix+"/containers/"+made+"?force=1&v=1", "", 204)

	bindVolume := m{"Type": "volume", "Source": "x", "Target": "/x", "VolumeOptions": m{
		"NoCopy": true, "DriverConfig": m{"Name": "local", "Options": m{"type": "none", "o": "bind", "device": "/"}},
	}}
	caps := append(slices.Clone(object.AgentCaps), "CAP_SYS_MODULE")
	changes := []struct {
		key string
		v   any
	}{
		{".Privileged", true},
		{".Binds", []string{"/:/host"}},
		{".Binds", []string{f.volume + ":/x"}},
		{".VolumesFrom", []string{f.container}},
		{".Mounts", []m{{"Type": "bind", "Source": "/", "Target": "/host"}}},
		{".Mounts", []m{bindVolume}},
		{".Mounts", []m{{"Type": "volume", "Source": f.volume, "Target": sandbox.ScratchDir, "VolumeOptions": m{"NoCopy": true}}}},
		{".Mounts", []m{{"Type": "volume", "Source": object.GuestVolume(strings.Repeat("0", 64)), "Target": object.GuestDir, "VolumeOptions": m{"NoCopy": true}}}},
		{".Mounts", []m{{"Type": "tmpfs", "Target": "/x"}}},
		{".Mounts", []m{{"Type": "npipe", "Source": "x", "Target": "/x"}}},
		{".Mounts", []m{{"Type": "image", "Source": f.image, "Target": "/x"}}},
		{".Devices", []m{{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda", "CgroupPermissions": "rwm"}}},
		{".DeviceRequests", []m{{"Driver": "nvidia", "Count": -1}}},
		{".DeviceCgroupRules", []string{"a *:* rwm"}},
		{".CapAdd", caps},
		{".CapAdd", []string{"ALL"}},
		{".CapDrop", []string{}},
		{".CapDrop", nil},
		{".SecurityOpt", []string{object.NoNewPrivileges, "seccomp=unconfined"}},
		{".SecurityOpt", []string{}},
		{".SecurityOpt", []string{object.NoNewPrivileges, "systempaths=unconfined"}},
		{".SecurityOpt", []string{"no-new-privileges=false"}},
		{".NetworkMode", "host"},
		{".NetworkMode", "bridge"},
		{".NetworkMode", ""},
		{".NetworkMode", "container:" + f.container},
		{".PidMode", "host"},
		{".PidMode", "container:" + f.container},
		{".IpcMode", "host"},
		{".IpcMode", ""},
		{".IpcMode", "container:" + f.container},
		{".UTSMode", "host"},
		{".UsernsMode", "host"},
		{".CgroupnsMode", "host"},
		{".Cgroup", "container:" + f.container},
		{".CgroupParent", "/"},
		{".Runtime", "runc"},
		{".Runtime", ""},
		{".Runtime", nil},
		{".Runtime", "io.containerd.runc.v2"},
		{".Runtime", "/bin/sh"},
		{".Sysctls", m{"kernel.core_pattern": "|/x"}},
		{".Tmpfs", m{"/x": ""}},
		{".Tmpfs", m{"/x": "rw,size=1g"}},
		{".Tmpfs", m{"/x/../tmp": object.Closed}},
		{".ReadonlyRootfs", false},
		{".LogConfig", m{"Type": "json-file"}},
		{".LogConfig", m{"Type": "syslog", "Config": m{"syslog-address": "tcp://a"}}},
		{".LogConfig", m{"Type": "none", "Config": m{"x": "y"}}},
		{".RestartPolicy", m{"Name": "always"}},
		{".AutoRemove", true},
		{".Init", true},
		{".StorageOpt", m{"size": "1t"}},
		{".OomScoreAdj", -1000},
		{".OomKillDisable", true},
		{".ShmSize", 1 << 40},
		{".PublishAllPorts", true},
		{".PortBindings", m{"1/tcp": []m{{"HostPort": "1"}}}},
		{".ExtraHosts", []string{"a:1.2.3.4"}},
		{".Dns", []string{"1.2.3.4"}},
		{".Links", []string{"x"}},
		{".GroupAdd", []string{"0"}},
		{".Ulimits", []m{{"Name": "nofile", "Hard": 1}}},
		{".MaskedPaths", []string{"/x"}},
		{".ReadonlyPaths", []string{"/x"}},
		{".Annotations", m{"dev.gvisor.flag.network": "host"}},
		{".Annotations", object.Annotations("/", 0)},
		{".Isolation", "hyperv"},
		{".Memory", 1 << 30},
		{".MemorySwap", -1},
		{".PidsLimit", -1},
		{".PidsLimit", 0},
		{".NanoCpus", -1},
		{".CpusetCpus", "0"},
		{".ContainerIDFile", "/x"},
		{".ConsoleSize", []int{1, 1}},
		{".Unknown", nil},
		{".unknown", 0},
		{".privileged", true},
		{".BINDS", []string{"/:/x"}},
		{"Image", "busybox"},
		{"Image", "quavon.test/test:1"},
		{"Image", strings.TrimPrefix(f.image, "sha256:")},
		{"Image", "sha256:" + strings.Repeat("0", 64)},
		{"Entrypoint", []string{"/bin/sh"}},
		{"Entrypoint", nil},
		{"Cmd", []string{"x"}},
		{"User", "1"},
		{"User", ""},
		{"WorkingDir", "/proc/self/fd/8"},
		{"Env", []string{"LD_PRELOAD=/x"}},
		{"Env", nil},
		{"Healthcheck", m{"Test": []string{"CMD", "/bin/sh"}}},
		{"Healthcheck", nil},
		{"Volumes", m{"/x": m{}, "/y": m{"z": 1}}},
		{"Labels", m{}},
		{"Labels", nil},
		{"Labels", labels("other", id)},
		{"Labels", labels(object.RoleGuest, id)},
		{"Labels", labels(object.RoleJob, "Other")},
		{"Tty", true},
		{"StdinOnce", false},
		{"NetworkingConfig", m{"EndpointsConfig": m{"x": m{"NetworkID": "y"}}}},
		{"ExposedPorts", m{"1/tcp": m{"x": 1}}},
		{"StopSignal", "9"},
		{"Shell", []string{"x"}},
		{"HostConfig", nil},
		{"HostConfig", []m{{"Privileged": true}}},
		{"hostconfig", m{"Privileged": true}},
		{"HostConfig ", m{"Privileged": true}},
		{"Ho\u017ftConfig", m{"Privileged": true}},
		{"Hostname", "x"},
		{"Domainname", "x"},
		{"OnBuild", []string{"x"}},
	}
	for _, c := range changes {
		f.refused(fmt.Sprintf("%s=%v", c.key, c.v), "POST", f.createURL(id), f.change(id, c.key, c.v))
	}
	helper := f.good(id)
	helper["Labels"] = labels(object.RoleHelper, id)
	f.refused("a helper with capabilities", "POST", f.createURL(id), text(t, helper))
}

// The texts are ones that two readers could understand differently.
func TestSmuggledKeys(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	good := text(t, f.good(id))
	inner := strings.TrimSuffix(good, "}")
	host := text(t, f.good(id)["HostConfig"])
	bad := strings.TrimSuffix(host, "}") + `,"Privileged":true}`
	for what, body := range map[string]string{
		"twice":               inner + `,"HostConfig":` + bad + `}`,
		"twice, good last":    `{"HostConfig":` + bad + `,` + good[1:],
		"escaped":             inner + `,"\u0048ostConfig":` + bad + `}`,
		"another case":        inner + `,"hostConfig":` + bad + `}`,
		"long s":              inner + `,"Ho\u017ftConfig":` + bad + `}`,
		"inside, twice":       strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"ReadonlyRootfs":false`, 1),
		"inside, other case":  strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"readonlyrootfs":false`, 1),
		"inside, privileged":  strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"\u0050rivileged":true`, 1),
		"kelvin":              strings.Replace(good, `"Networ`, `"Networ\u212aMode":"host","Networ`, 1),
		"two values":          good + good,
		"something behind":    good + "x",
		"BOM":                 "\ufeff" + good,
		"not UTF-8":           strings.Replace(good, `"User":"0:0"`, "\"User\":\"0:0\xff\"", 1),
		"NUL in a key":        inner + `,"HostConfig\u0000":{}}`,
		"an empty key":        inner + `,"":{}}`,
		"no object":           `[` + good + `]`,
		"null":                "null",
		"nothing":             "",
		"cut":                 good[:len(good)-2],
		"nested":              inner + `,"Labels":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat("}", 5000) + `}`,
		"large":               inner + `,"Hostname":"` + strings.Repeat("x", 1<<20) + `"}`,
		"a huge number":       strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"NanoCpus":1e400`, 1),
		"a number as boolean": strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":1`, 1),
		"comments":            "/* x */" + good,
	} {
		f.refused(what, "POST", f.createURL(id), body)
	}
	// The control: these reach an engine that has no guard.
	direct := strings.Replace(good, `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"privileged":true`, 1)
	made := f.id(f.must(f.engine, "POST", prefix+"/containers/create", direct, 201))
	var i struct{ HostConfig struct{ Privileged bool } }
	if err := json.Unmarshal([]byte(f.must(f.engine, "GET", prefix+"/containers/"+made+"/json", "", 200)), &i); err != nil || !i.HostConfig.Privileged {
		t.Errorf("the control shows nothing: %+v, %v", i, err)
	}
	f.must(f.engine, "DELETE", prefix+"/containers/"+made, "", 204)
}

// What the client library writes without a value isn't passed on.
func TestNeutralKeysAreDropped(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	body := strings.Replace(text(t, f.good(id)), `"ReadonlyRootfs":true`, `"ReadonlyRootfs":true,"MaskedPaths":[],"ReadonlyPaths":[],"Binds":null,"Init":false`, 1)
	made := f.id(f.must(f.guard, "POST", f.createURL(id), body, 201))
	defer f.must(f.guard, "DELETE", prefix+"/containers/"+made, "", 204)
	var i struct {
		HostConfig struct {
			MaskedPaths, ReadonlyPaths []string
			Init                       *bool
		}
	}
	if err := json.Unmarshal([]byte(f.must(f.engine, "GET", prefix+"/containers/"+made+"/json", "", 200)), &i); err != nil {
		t.Fatal(err)
	}
	if len(i.HostConfig.MaskedPaths) == 0 || len(i.HostConfig.ReadonlyPaths) == 0 || i.HostConfig.Init != nil {
		t.Errorf("%+v", i)
	}
}

func TestRouteAttacks(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	body := text(t, f.good(id))
	name := "name=" + object.Container(instance, id)
	for _, url := range []string{
		"/containers/create?" + name, "/v1.99/containers/create?" + name, "/v1.24/containers/create?" + name, "/v1.45/v1.45/containers/create?" + name,
		"/V1.45/containers/create?" + name, "/v01.45/containers/create?" + name, "/v1.45.0/containers/create?" + name, "//v1.45/containers/create?" + name,
		"/v1.45//containers/create?" + name, "/v1.45/containers//create?" + name, "/v1.45/containers/create/?" + name, "/v1.45/./containers/create?" + name,
		"/v1.45/containers/x/../create?" + name, "/v1.45/containers/%63reate?" + name, "/v1.45%2fcontainers/create?" + name, "/v1.45/containers/create%00?" + name,
		"/v1.45/containers/create%3F?" + name, "/v1.45/containers/create", "/v1.45/containers/create?name=x", "/v1.45/containers/create?" + name + "&" + name,
		"/v1.45/containers/create?" + name + "&platform=linux/arm64", "/v1.45/containers/create?" + name + ";x", "/v1.45/containers/create?" + name + "%2f..", "/v1.45/containers/create?Name=x&" + name,
	} {
		f.refused(url, "POST", url, body)
	}
	f.refused("another method", "PUT", f.createURL(id), body)
	c := "/containers/" + f.container
	for _, a := range []string{
		"GET " + c + "/json", "POST " + c + "/start", "POST " + c + "/wait?condition=next-exit", "GET " + c + "/stats?stream=0&one-shot=1", "DELETE " + c + "?force=1",
		"POST " + c + "/attach?stream=1&stdin=1&stdout=1&stderr=1", "GET " + c + "/attach/ws?stream=1&stdin=1&stdout=1", "GET " + c + "/archive?path=/etc/passwd",
		"PUT " + c + "/archive?path=/", "HEAD " + c + "/archive?path=/", "HEAD " + c + "/archive?path=/tmp", "POST " + c + "/exec", "GET " + c + "/logs?stdout=1", "GET " + c + "/top", "GET " + c + "/export",
		"GET " + c + "/changes", "POST " + c + "/update", "POST " + c + "/rename?name=quavon-" + instance + "-x", "POST " + c + "/pause", "POST " + c + "/unpause",
		"POST " + c + "/stop", "POST " + c + "/restart", "POST " + c + "/kill", "POST " + c + "/resize?h=1&w=1", "POST /containers/prune", "POST /commit?container=" + f.container,
		"GET /containers/foreign-" + strings.ToLower(t.Name()) + "/json", "GET /containers/" + f.container[:12] + "/json", "DELETE /containers/foreign-" + strings.ToLower(t.Name()),
		"POST /build", "POST /build/prune", "POST /session", "POST /grpc", "POST /images/create?fromImage=x", "POST /images/load", "GET /images/json", "GET /images/search?term=x",
		"DELETE /images/" + f.image, "POST /images/" + f.image + "/tag?repo=x", "POST /images/x/push", "GET /images/get?names=x", "POST /images/prune", "GET /images/busybox/json",
		"GET /images/" + f.image + "/history", "GET /images/" + f.image + "/get", "GET /images/" + f.image + "/../busybox/json", "GET /distribution/x/json", "POST /auth",
		"GET /volumes/" + f.volume, "DELETE /volumes/" + f.volume, "POST /volumes/prune", "PUT /volumes/" + f.volume + "?version=1", "GET /networks", "POST /networks/create", "DELETE /networks/bridge",
		"POST /networks/bridge/connect", "GET /plugins", "POST /plugins/pull?remote=x", "POST /plugins/create?name=x", "POST /swarm/init", "GET /swarm", "GET /nodes", "POST /services/create",
		"GET /secrets", "POST /secrets/create", "GET /configs", "GET /tasks", "GET /system/df", "GET /events", "GET /checkpoints", "POST /exec/x/start", "GET /exec/x/json", "GET /debug/pprof/",
		"OPTIONS /info", "TRACE /info", "PATCH /info", "POST /info", "GET /_ping/", "GET /_pingx",
	} {
		method, path, _ := strings.Cut(a, " ")
		f.refused(a, method, prefix+path, "")
	}
}

func TestVolumeAttacks(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	name := object.ScratchVolume(instance, id)
	good := m{"Name": name, "Driver": "local", "Labels": labels(object.RoleScratch, id)}
	url := prefix + "/volumes/create"
	f.must(f.guard, "POST", url, text(t, good), 201)
	f.must(f.guard, "DELETE", prefix+"/volumes/"+name, "", 204)
	options := m{"type": "none", "o": "bind", "device": "/"}
	for what, change := range map[string]m{
		"bind":              {"DriverOpts": options},
		"bind, other case":  {"driveropts": options},
		"another driver":    {"Driver": "nfs"},
		"no driver":         {"Driver": ""},
		"another name":      {"Name": "x"},
		"no name":           {"Name": ""},
		"somebody's name":   {"Name": f.volume},
		"no labels":         {"Labels": nil},
		"a guest's labels":  {"Labels": m{object.LabelRole: object.RoleGuest, object.LabelSandbox: ""}},
		"an unknown key":    {"X": nil},
		"a cluster volume":  {"ClusterVolumeSpec": m{"Group": "x"}},
		"a driver's option": {"Options": options},
	} {
		b := maps.Clone(good)
		maps.Copy(b, change)
		f.refused(what, "POST", url, text(t, b))
	}
	// A volume of the right name that is a host directory is no use either.
	evil := maps.Clone(good)
	evil["DriverOpts"] = options
	f.must(f.engine, "POST", url, text(t, evil), 201)
	f.before = engine.Objects()
	mount := []m{{"Type": "volume", "Source": name, "Target": sandbox.ScratchDir, "VolumeOptions": m{"NoCopy": true}}}
	f.refused("a scratch volume that is a host directory", "POST", f.createURL(id), f.change(id, ".Mounts", mount))
	f.must(f.engine, "DELETE", prefix+"/volumes/"+name, "", 204)
	f.must(f.guard, "POST", url, text(t, good), 201)
	f.before = engine.Objects()
	f.refused("a scratch volume without a limit", "POST", f.createURL(id), f.change(id, ".Mounts", mount))
	f.must(f.guard, "DELETE", prefix+"/volumes/"+name, "", 204)
}

// Answers show nothing of others, whatever the filters say.
func TestAnswersAreFiltered(t *testing.T) {
	f := newField(t)
	for _, url := range []string{
		"/containers/json", "/containers/json?all=1", `/containers/json?filters={"label":["x"]}`, `/containers/json?filters={"label":{"` + object.LabelRole + `":false}}`,
		"/volumes", `/volumes?filters={"label":{"x":true}}`,
	} {
		url = strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D", "[", "%5B", "]", "%5D").Replace(url)
		if _, answer := f.do(f.guard, "GET", prefix+url, ""); strings.Contains(answer, "foreign") || strings.Contains(answer, f.container) {
			t.Errorf("%s: %s", url, answer)
		}
	}
	if _, answer := f.do(f.engine, "GET", prefix+"/containers/json", ""); !strings.Contains(answer, f.container) {
		t.Errorf("the control shows nothing: %s", answer)
	}
	info := f.must(f.guard, "GET", prefix+"/info", "", 200)
	if !strings.Contains(info, `"runsc"`) || strings.Contains(info, `"runc"`) || strings.Contains(info, "Plugins") {
		t.Errorf("info: %s", info)
	}
}

// raw sends bytes on a connection and returns what comes back within a moment of the
// first of it, for which it waits so long.
func (f *field) raw(request string, wait time.Duration) string {
	f.t.Helper()
	c, err := net.Dial("unix", f.guardPath)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return err.Error()
	}
	r := bufio.NewReader(c)
	_ = c.SetReadDeadline(time.Now().Add(wait))
	_, _ = r.Peek(1) // what isn't there isn't read below
	_ = c.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	data, _ := io.ReadAll(r)
	return string(data)
}

// Two requests in one, and requests that end at different places for different
// readers.
func TestSmuggledRequests(t *testing.T) {
	f := newField(t)
	evil := fmt.Sprintf(`{"Image":%q,"HostConfig":{"Privileged":true}}`, f.image)
	inner := fmt.Sprintf("POST %s/containers/create HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", prefix, len(evil), evil)
	for what, request := range map[string]string{
		"pipelined":           "GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n" + inner,
		"both lengths":        fmt.Sprintf("GET /_ping HTTP/1.1\r\nHost: docker\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(inner)+5) + inner,
		"two lengths":         "GET /_ping HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n" + inner,
		"an unknown encoding": "POST " + prefix + "/containers/create HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: xchunked\r\n\r\n" + inner,
		"behind an upgrade":   "GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + inner,
		"h2c":                 "GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + inner,
		"HTTP/2 at once":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + inner,
		"absolute":            "GET http://other/_ping HTTP/1.1\r\nHost: docker\r\n\r\n" + inner,
		"chunked, endless":    "POST " + prefix + "/containers/create HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("ffff\r\n"+strings.Repeat("x", 0xffff)+"\r\n", 8),
		"folded header":       "GET /_ping HTTP/1.1\r\nHost: docker\r\nX: a\r\n Content-Length: 5\r\n\r\n" + inner,
	} {
		if got := f.raw(request, 2*time.Second); strings.Contains(got, "201 Created") || strings.Contains(got, "101 ") {
			t.Errorf("%s: %s", what, got)
		}
	}
	f.unchanged("smuggled requests")
}

// A sandbox's attach takes no other protocol or parameters, and a helper none.
func TestAttachAttacks(t *testing.T) {
	f := newField(t)
	id := f.sandboxID()
	made := f.id(f.must(f.guard, "POST", f.createURL(id), text(t, f.good(id)), 201))
	defer f.must(f.guard, "DELETE", prefix+"/containers/"+made, "", 204)
	head := func(path, upgrade string) string {
		return "POST " + prefix + "/containers/" + made + path + " HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + "\r\n\r\n"
	}
	all := "/attach?stream=1&stdin=1&stdout=1&stderr=1"
	if got := f.raw(head(all, "tcp"), patience); !strings.HasPrefix(got, "HTTP/1.1 101") {
		t.Errorf("the control does not attach: %s", got)
	}
	for _, r := range []string{
		head(all, "websocket"), head(all, "h2c"), head(all+"&logs=1", "tcp"), head(all+"&detachKeys=x", "tcp"), head("/attach?stream=1", "tcp"), head("/attach/ws", "websocket"),
		head("/start", "tcp"), head("/json", "tcp"), head(all, "tcp, websocket"),
	} {
		if got := f.raw(r, patience); !strings.HasPrefix(got, "HTTP/1.1 40") {
			t.Errorf("%q: %s", r, got)
		}
	}
}

// Of a helper's image the guard says whether it has the directory that sandboxes' containers
// cover, and of no other path and no other container anything.
func TestStatAttacks(t *testing.T) {
	f := newField(t)
	job := f.sandboxID()
	made := f.id(f.must(f.guard, "POST", f.createURL(job), text(t, f.good(job)), 201))
	defer f.must(f.guard, "DELETE", prefix+"/containers/"+made, "", 204)
	id := f.sandboxID()
	body := f.good(id)
	body["Labels"], body["Entrypoint"] = labels(object.RoleHelper, id), []string{object.GuestPath}
	for _, key := range []string{"Env", "AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce"} {
		delete(body, key)
	}
	host, ok := body["HostConfig"].(m)
	if !ok {
		t.Fatal("no HostConfig")
	}
	delete(host, "CapAdd")
	delete(host, "Tmpfs")
	helper := f.id(f.must(f.guard, "POST", f.createURL(id), text(t, body), 201))
	defer f.must(f.guard, "DELETE", prefix+"/containers/"+helper, "", 204)
	f.before = engine.Objects()
	stat := func(id, path string) string { return prefix + "/containers/" + id + "/archive?path=" + path }
	if code, _ := f.do(f.guard, "HEAD", stat(helper, object.CoveredDir), ""); code != 200 && code != 404 {
		t.Fatalf("the control: %d", code)
	}
	direct, _ := f.do(f.engine, "HEAD", stat(helper, object.CoveredDir), "")
	if code, _ := f.do(f.guard, "HEAD", stat(helper, object.CoveredDir), ""); code != direct {
		t.Errorf("the guard says %d, the engine %d", code, direct)
	}
	for _, url := range []string{
		stat(made, object.CoveredDir), stat(f.container, object.CoveredDir), stat(helper, "/etc"), stat(helper, "/tmp/x"), stat(helper, "/tmp/.."), stat(helper, "tmp"),
		stat(helper, "/etc/passwd"), stat(helper, "/tmp&path=/etc"), stat(helper, ""),
	} {
		f.refused(url, "HEAD", url, "")
	}
	f.refused("its content", "GET", stat(helper, object.CoveredDir), "")
}
