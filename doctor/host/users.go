package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
)

// serviceUID is the services' in our images.
const serviceUID = 65532

// jobUsers looks for users and groups of the host with the numbers of jobs: what a
// job writes would be theirs, and what they write the job's.
func (c Config) jobUsers(ctx context.Context) doctor.Finding {
	ids := []int{sandbox.JobUID, serviceUID, sandbox.AgentUID}
	var taken, fixes []string
	for _, database := range []string{"passwd", "group"} {
		free := c.freeIDs(ctx, database)
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
				fixes = append(fixes, renumber(database, free(), f[0]))
			}
		}
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		more, moves, err := c.delegated(file, ids)
		if err != nil {
			return doctor.Unknown(err)
		}
		taken, fixes = append(taken, more...), append(fixes, moves...)
	}
	if len(taken) > 0 {
		return doctor.Failed("users of this host have the numbers of jobs or services",
			"run `"+strings.Join(fixes, " && ")+"`, and give them the files that they had outside of their homes", taken...)
	}
	return doctor.Passed(fmt.Sprintf("nobody has the numbers %v", ids))
}

// renumber is the command that gives a user or group another number.
func renumber(database, number, name string) string {
	if database == "group" {
		return fault.Words("groupmod", "-g", number, name)
	}
	return fault.Words("usermod", "-u", number, name)
}

// freeIDs are numbers that nobody in a database has, each once; where none is found it is
// the operator's to find one.
func (c Config) freeIDs(ctx context.Context, database string) func() string {
	const tries = 100
	next, last := sandbox.JobUID-1, sandbox.JobUID-tries
	return func() string {
		for ; next > last; next-- {
			_, err := c.Host.Run(ctx, "getent", database, strconv.Itoa(next))
			if err != nil && strings.Contains(err.Error(), "exit status 2") {
				next--
				return strconv.Itoa(next + 1)
			}
		}
		return "NUMBER"
	}
}

// delegated are the ranges of users' own namespaces that have one of ids.
func (c Config) delegated(file string, ids []int) (taken, moves []string, err error) {
	data, err := c.Host.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var bad []subRange
	free := leastSubID
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil {
			return nil, nil, fmt.Errorf("%s: %q are no numbers", file, f[1]+":"+f[2])
		}
		free = max(free, first+count)
		if slices.ContainsFunc(ids, func(id int) bool { return id >= first && id-first < count }) {
			bad = append(bad, subRange{f[0], first, count})
		}
	}
	for _, r := range bad {
		taken = append(taken, fmt.Sprintf("%s: %s has %d numbers from %d on", file, r.user, r.count, r.first))
		moves = append(moves, r.move(path.Base(file), free))
		free += r.count
	}
	return taken, moves, nil
}

// leastSubID is where useradd begins with ranges for users' own namespaces.
const leastSubID = 100000

// subRange is a range of numbers that a user may give to a namespace's users.
type subRange struct {
	user         string
	first, count int
}

// move is the command that gives the user as many numbers elsewhere.
func (r subRange) move(file string, to int) string {
	last := func(first int) string { return fmt.Sprintf("%d-%d", first, first+r.count-1) }
	return fault.Words("usermod", "--del-"+file+"s", last(r.first), "--add-"+file+"s", last(to), r.user)
}
