package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

func (c Config) docker() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD911", Name: "docker-address", Title: "it is clear which Docker engine is meant", Group: groupDocker,
			Severity: doctor.Failure, DefaultFix: "name its socket: DOCKER_HOST=unix:///PATH", Run: c.dockerAddress,
		},
		{
			Code: "QD912", Name: "docker-engine", Title: "the engine answers, and is one that isolates", Group: groupDocker,
			Needs: []string{"QD911"}, Severity: doctor.Failure, DefaultFix: "install Docker Engine 24 or newer from your distribution",
			Run: c.dockerEngine,
		},
		{
			Code: "QD913", Name: "docker-version", Title: "the engine has no known way out of its internal networks", Group: groupDocker,
			Needs: []string{"QD912"}, Severity: doctor.Failure, DefaultFix: "upgrade Docker Engine: 26.0, 25.0.4 or 23.0.11 at least",
			Run: c.dockerVersion,
		},
		{
			Code: "QD914", Name: "daemon-json", Title: "dockerd would start with its daemon.json", Group: groupDocker,
			Severity: doctor.Failure, DefaultFix: "correct the file; `dockerd --validate` finds some mistakes, but not all",
			Run: c.daemonJSON,
		},
		{
			Code: "QD915", Name: "daemon-flags", Title: "daemon.json and dockerd's flags don't say the same twice", Group: groupDocker,
			Needs: []string{"QD914"}, Severity: doctor.Failure,
			DefaultFix: "take what is listed out of daemon.json, or out of the flags by `systemctl edit docker`", Run: c.daemonFlags,
		},
		{
			Code: "QD916", Name: "docker-runtimes", Title: "gVisor is registered without flags that weaken it", Group: groupDocker,
			Needs: []string{"QD914"}, Severity: doctor.Failure,
			DefaultFix: "take what is listed out of daemon.json's runtimes, and restart dockerd", Run: c.dockerRuntimes,
		},
		{
			Code: "QD917", Name: "docker-wrapper", Title: "dockerd can start a runtime with arguments", Group: groupDocker,
			Needs: []string{"QD912"}, Severity: doctor.Failure,
			DefaultFix: "register the runtime without runtimeArgs, or mount the data-root without noexec", Run: c.dockerWrapper,
		},
		{
			Code: "QD918", Name: "docker-socket", Title: "only root and a group reach the engine", Group: groupDocker,
			Needs: []string{"QD911"}, Severity: doctor.Failure, DefaultFix: "run `chmod o-rwx` on the socket", Run: c.dockerSocket,
		},
		{
			Code: "QD919", Name: "compose", Title: "the client has a compose that knows our file", Group: groupDocker,
			Needs: []string{"QD911"}, Severity: doctor.Warning,
			DefaultFix: "install the plugin docker-compose (docker-compose-plugin in Docker's packages), 2.17 or newer", Run: c.compose,
		},
	}
}

func (c Config) dockerAddress(context.Context) doctor.Finding {
	path, from, err := c.Socket()
	if err != nil {
		return doctor.Failed(err.Error(), fault.Hint(err))
	}
	if _, err := c.Host.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if from == "default" {
			return doctor.Skipped("there is no Docker engine here; the backend runsc needs none")
		}
		return doctor.Failed(fmt.Sprintf("there is no socket at %s, which %s names", path, from), c.forgetEngine(from))
	}
	var also []string
	if other := c.Host.Env("DOCKER_CONTEXT"); from == "DOCKER_HOST" && other != "" {
		also = append(also, fmt.Sprintf("DOCKER_CONTEXT=%s is not used: DOCKER_HOST counts more", other))
	}
	return doctor.Passed(fmt.Sprintf("%s, named by %s", path, from), also...)
}

// forgetEngine takes back the naming of an engine, so that the usual socket counts.
func (c Config) forgetEngine(from string) string {
	forget := "docker context use default"
	switch {
	case from == "DOCKER_HOST":
		forget = "unset DOCKER_HOST"
	case c.Host.Env("DOCKER_CONTEXT") != "":
		forget = "unset DOCKER_CONTEXT"
	}
	return "run `" + forget + "`, or name the engine's socket: DOCKER_HOST=unix:///PATH"
}

// engineInfo is what is read of the engine's /info and /version.
type engineInfo struct {
	ServerVersion, OSType, OperatingSystem, DockerRootDir string

	SecurityOptions []string
	Runtimes        map[string]dockerRuntime
}

type dockerRuntime struct {
	Path        string   `json:"path"`
	Args        []string `json:"runtimeArgs"`
	RuntimeType string   `json:"runtimeType"`
}

// API versions as in runner/sandbox/docker.
const oldestAPI, newestAPI = 43, 51

func (c Config) get(ctx context.Context, path string, into any) error {
	socket, _, err := c.Socket()
	if err != nil {
		return err
	}
	a, err := c.Host.Get(ctx, socket, path)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, a.Status)
	}
	return json.Unmarshal(a.Body, into)
}

func (c Config) dockerEngine(ctx context.Context) doctor.Finding {
	socket, _, err := c.Socket()
	if err != nil {
		return doctor.Unknown(err)
	}
	podman, err := c.Host.Get(ctx, socket, "/v1/libpod/_ping")
	switch {
	case errors.Is(err, unix.EACCES):
		return doctor.Failed("this user may not use the engine at "+socket, "run the doctor as root")
	case err != nil:
		return doctor.Failed("the engine at "+socket+" does not answer: "+err.Error(), "start it: `systemctl start docker`")
	case podman.Status == http.StatusOK:
		return doctor.Failed("what answers is Podman: its runtimes come from containers.conf, not daemon.json",
			"install Docker Engine, or use the backend runsc")
	}
	var version struct{ Version, APIVersion, MinAPIVersion string }
	if err := c.get(ctx, "/version", &version); err != nil {
		return doctor.Unknown(err)
	}
	high, ok := apiMinor(version.APIVersion)
	low, ok2 := apiMinor(cmp.Or(version.MinAPIVersion, version.APIVersion))
	if !ok || !ok2 {
		return doctor.Unknown(fmt.Errorf("the engine's API version is %q", version.APIVersion))
	}
	if high < oldestAPI || low > newestAPI {
		return doctor.Failed(fmt.Sprintf("Docker %s speaks API 1.%d to 1.%d, quavon 1.%d to 1.%d", version.Version, low, high, oldestAPI,
			newestAPI), "")
	}
	var info engineInfo
	if err := c.get(ctx, "/info", &info); err != nil {
		return doctor.Unknown(err)
	}
	if real, err := c.Host.Resolve(socket); err == nil && strings.Contains(real, "/.colima/") {
		return doctor.Failed("the engine is Colima's, in a machine of its own, and its configuration is made anew at each start",
			"install Docker Engine on this host; for development, put runtimes below `docker:` of ~/.colima/default/colima.yaml")
	}
	return engineKind(version.Version, info)
}

// engineKind refuses engines that don't isolate, or not on this machine.
func engineKind(version string, info engineInfo) doctor.Finding {
	rootless := false
	for _, o := range info.SecurityOptions {
		rootless = rootless || o == "name=rootless" || strings.HasPrefix(o, "name=rootless,")
	}
	switch {
	case info.OSType != "linux":
		return doctor.Failed("the engine runs "+info.OSType+" containers", "")
	case rootless:
		return doctor.Failed("the engine is rootless: it has neither limits nor networks that isolate a job",
			"use a rootful engine, or the backend runsc")
	case info.OperatingSystem == "Docker Desktop":
		return doctor.Failed("the engine is Docker Desktop's, in a machine of its own: a runsc or /dev/kvm of this host isn't there",
			"install Docker Engine on this host, and `docker context use default`")
	case strings.HasPrefix(info.DockerRootDir, "/var/snap/docker/"):
		return doctor.Failed("the engine is the snap's, which can't run a runsc of the host's",
			"run `snap remove docker`, then install docker-ce or docker.io")
	}
	return doctor.Passed("Docker Engine " + version)
}

// apiMinor reads "1.N".
func apiMinor(v string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(v, "1."))
	return n, err == nil && strings.HasPrefix(v, "1.")
}

var versionForm = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)`)

// dockerVersion looks for CVE-2024-29018: the engine's own DNS forwarded names from
// internal networks.
func (c Config) dockerVersion(ctx context.Context) doctor.Finding {
	var info engineInfo
	if err := c.get(ctx, "/info", &info); err != nil {
		return doctor.Unknown(err)
	}
	m := versionForm.FindStringSubmatch(info.ServerVersion)
	if m == nil {
		return doctor.Unknown(fmt.Errorf("the engine's version %q has no numbers", info.ServerVersion))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	patch, _ := strconv.Atoi(m[3])
	fixed := major >= 26 || major == 25 && (minor > 0 || patch >= 4) || major == 23 && (minor > 0 || patch >= 11)
	if !fixed {
		return doctor.Failed("Docker "+info.ServerVersion+" forwards names from internal networks (CVE-2024-29018)", "")
	}
	return doctor.Passed("Docker " + info.ServerVersion)
}

// dockerWrapper knows that dockerd writes a script below its data-root for every
// runtime with arguments, which must be executable there.
func (c Config) dockerWrapper(ctx context.Context) doctor.Finding {
	var info engineInfo
	if err := c.get(ctx, "/info", &info); err != nil {
		return doctor.Unknown(err)
	}
	root, err := c.Host.FileSystem(info.DockerRootDir)
	if err != nil {
		return doctor.Unknown(err)
	}
	var with []string
	for _, name := range sortedKeys(info.Runtimes) {
		if len(info.Runtimes[name].Args) > 0 {
			with = append(with, name)
		}
	}
	if root.NoExec && len(with) > 0 {
		return doctor.Failed(fmt.Sprintf("%s is mounted noexec, where dockerd keeps the start script of %s", info.DockerRootDir,
			strings.Join(with, ", ")), c.allowPrograms(info.DockerRootDir))
	}
	if len(with) > 0 && c.enforcingSELinux() {
		return doctor.Warned("SELinux is enforcing: its labels may keep dockerd from the start script of "+strings.Join(with, ", "),
			"if jobs fail with \"permission denied\", register the runtime without runtimeArgs")
	}
	return doctor.Passed(fmt.Sprintf("%d runtimes have arguments, and %s allows to run programs: %t", len(with), info.DockerRootDir,
		!root.NoExec))
}

// allowPrograms mounts the file system of a directory so that programs run from it; ""
// where it isn't known.
func (c Config) allowPrograms(dir string) string {
	mount := c.mountOf(dir)
	if mount == "" {
		return ""
	}
	return "run " + fault.Command("mount", "-o", "remount,exec", mount) +
		" and take noexec out of /etc/fstab, or register the runtime without runtimeArgs"
}

func (c Config) enforcingSELinux() bool {
	data, _ := c.Host.ReadFile("/sys/fs/selinux/enforce") // without SELinux there is none
	return strings.TrimSpace(string(data)) == "1"
}

func (c Config) dockerSocket(context.Context) doctor.Finding {
	path, _, err := c.Socket()
	if err != nil {
		return doctor.Unknown(err)
	}
	info, err := c.Host.Stat(path)
	if err != nil {
		return doctor.Unknown(err)
	}
	owner := fmt.Sprintf("%s has mode %04o, uid %d, gid %d", path, info.Mode.Perm(), info.UID, info.GID)
	if info.Mode.Perm()&0o002 != 0 {
		return doctor.Failed(owner+": everyone on this host is root by it", "run "+fault.Command("chmod", "o-rwx", path))
	}
	if info.UID != 0 {
		return doctor.Failed(owner+": that user is root by it", "run "+fault.Command("chown", "root", path))
	}
	return doctor.Passed(owner)
}
