package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox"
)

// serviceUID is the services' in our images.
const serviceUID = 65532

// jobUsers looks for users and groups of the host with the numbers of jobs: what a
// job writes would be theirs, and what they write the job's.
func (c Config) jobUsers(ctx context.Context) doctor.Finding {
	ids := []int{sandbox.JobUID, serviceUID, sandbox.AgentUID}
	var taken []string
	for _, database := range []string{"passwd", "group"} {
		argv := []string{"getent", database}
		for _, id := range ids {
			argv = append(argv, strconv.Itoa(id))
		}
		out, err := c.Host.Run(ctx, argv...)
		// getent ends with 2 when it doesn't know one of them.
		if err != nil && !strings.Contains(err.Error(), "exit status 2") {
			return doctor.Unknown(err)
		}
		for line := range strings.Lines(out) {
			if f := strings.Split(line, ":"); len(f) > 2 {
				taken = append(taken, fmt.Sprintf("%s: %s has the number %s", database, f[0], f[2]))
			}
		}
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		more, err := c.delegated(file, ids)
		if err != nil {
			return doctor.Unknown(err)
		}
		taken = append(taken, more...)
	}
	if len(taken) > 0 {
		return doctor.Failed("users of this host have the numbers of jobs or services", "", taken...)
	}
	return doctor.Passed(fmt.Sprintf("nobody has the numbers %v", ids))
}

// delegated are the ranges of users' own namespaces that have one of ids.
func (c Config) delegated(file string, ids []int) ([]string, error) {
	data, err := c.Host.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%s: %q are no numbers", file, f[1]+":"+f[2])
		}
		if slices.ContainsFunc(ids, func(id int) bool { return id >= first && id-first < count }) {
			out = append(out, fmt.Sprintf("%s: %s has %d numbers from %d on", file, f[0], count, first))
		}
	}
	return out, nil
}
