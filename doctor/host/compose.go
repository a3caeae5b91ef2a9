package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/quavon/quavon/doctor"
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
		return doctor.Failed("there is no docker, the engine's client", "run `apt install docker-cli docker-compose`, or what your "+
			"distribution has")
	case err != nil:
		return doctor.Failed("docker has no plugin compose; the program docker-compose 1 is something else", "", err.Error())
	}
	version := strings.TrimPrefix(strings.TrimSpace(out), "v")
	m := versionForm.FindStringSubmatch(version)
	if m == nil {
		return doctor.Unknown(fmt.Errorf("compose's version %q has no numbers", version))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if older(major, minor, oldestComposeMajor, oldestComposeMinor) {
		return doctor.Failed(fmt.Sprintf("compose %s is too old: %d.%d at least", version, oldestComposeMajor, oldestComposeMinor), "")
	}
	return doctor.Passed("compose " + version)
}
