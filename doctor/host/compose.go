package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

// oldestCompose is the first that knows what our compose file uses last:
// depends_on's restart.
const oldestComposeMajor, oldestComposeMinor = 2, 17

// compose asks the client's plugin, which is what `quavon install` runs.
func (c Config) compose(ctx context.Context) doctor.Finding {
	out, err := c.Host.Run(ctx, "docker", "compose", "version", "--short")
	switch {
	case ctx.Err() != nil:
		return doctor.Unknown(context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Failed("there is no docker, the engine's client", c.installCompose("docker-cli"))
	case err != nil:
		return c.noPlugin(ctx, err)
	}
	version := strings.TrimPrefix(strings.TrimSpace(out), "v")
	m := versionForm.FindStringSubmatch(version)
	if m == nil {
		return doctor.Unknown(fmt.Errorf("compose's version %q has no numbers", version))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if older(major, minor, oldestComposeMajor, oldestComposeMinor) {
		return doctor.Failed(fmt.Sprintf("compose %s is too old: %d.%d at least", version, oldestComposeMajor, oldestComposeMinor),
			c.installCompose())
	}
	return doctor.Passed("compose " + version)
}

// pluginDir is where the client looks for plugins that an administrator has put there.
const pluginDir = "/usr/local/lib/docker/cli-plugins"

// noPlugin knows that docker-compose 2 alone is the same program as the plugin, in a
// place where the client doesn't look.
func (c Config) noPlugin(ctx context.Context, why error) doctor.Finding {
	out, err := c.Host.Run(ctx, "sh", "-c", "command -v docker-compose && docker-compose version --short")
	file, version, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if err == nil && versionForm.MatchString(version) && !strings.HasPrefix(strings.TrimPrefix(version, "v"), "1.") {
		return doctor.Failed(fmt.Sprintf("docker has no plugin compose: %s %s is one, where docker doesn't look", file, version),
			"run `"+fault.Words("mkdir", "-p", pluginDir)+" && "+fault.Words("ln", "-s", file, pluginDir+"/docker-compose")+"`",
			why.Error())
	}
	return doctor.Failed("docker has no plugin compose; the program docker-compose 1 is something else", c.installCompose(), why.Error())
}

// installCompose names the packages that have it: Debian 12's docker-compose is version 1,
// and its docker-cli doesn't exist.
func (c Config) installCompose(also ...string) string {
	data, _ := c.Host.ReadFile("/etc/os-release") // a system without it has packages of other names
	release := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		release[name] = strings.Trim(value, `"'`)
	}
	major, _, _ := strings.Cut(release["VERSION_ID"], ".")
	number, err := strconv.Atoi(major)
	switch {
	case err == nil && release["ID"] == "debian" && number >= 13:
		return "run " + fault.Command(append([]string{"apt", "install", "docker-compose"}, also...)...)
	case release["ID"] == "ubuntu":
		return "run `apt install docker.io docker-compose-v2`"
	}
	return "install docker-ce-cli and docker-compose-plugin as docs.docker.com says for this system, 2.17 or newer"
}
