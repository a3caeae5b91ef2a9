package smoke

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// group is a sandbox's control group as the kernel has it, found by a process of the
// sandbox and not by what the backend says.
type group struct {
	pids []int
	// dirs are its directories by controller; version 2 has one, "".
	dirs map[string]string
}

// group finds a live sandbox's.
func (b *Bench) group(ctx context.Context, job string) (*group, error) {
	pids, err := b.Processes(ctx, job)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, errors.New("the sandbox has no process")
	}
	g := &group{pids: pids, dirs: map[string]string{}}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pids[0]))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			g.dirs[c] = filepath.Join("/sys/fs/cgroup", c, f[2])
		}
	}
	g.all(job)
	return g, nil
}

// all finds the processes that the backend doesn't name, in the group that is the
// sandbox's alone.
func (g *group) all(job string) {
	for _, dir := range g.dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || !strings.Contains(dir, job) {
			continue // the backend's word is what there is
		}
		var pids []int
		for w := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(w); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		g.pids = pids
	}
}

// limit reads one of the group's numbers; what isn't limited is math.MaxInt64.
func (g *group) limit(controller, v1, v2 string) (int64, error) {
	path := filepath.Join(g.dirs[controller], v1)
	if _, err := os.Stat(path); g.dirs[controller] == "" || err != nil {
		path = filepath.Join(g.dirs[""], v2)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	const unlimited = math.MaxInt64 &^ 0xffff // version 1's
	s, _, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	if s == "max" || s == "-1" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if n >= unlimited {
		n = math.MaxInt64
	}
	return n, err
}

// ticksPerSecond is the kernel's unit of processor time in /proc, the same on all of
// our machines.
const ticksPerSecond = 100

// used is the processor time that the group's processes have had.
func (g *group) used() time.Duration {
	var ticks int64
	for _, pid := range g.pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		const user, system = 11, 12
		if len(f) > system {
			u, _ := strconv.ParseInt(f[user], 10, 64)
			s, _ := strconv.ParseInt(f[system], 10, 64)
			ticks += u + s
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// left lists the directories that are still there, but for those of groups that the
// sandbox shared with this process.
func (g *group) left() []string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for c, dir := range g.dirs {
		shared := strings.Contains(string(own)+"\n", ":"+strings.TrimPrefix(dir, filepath.Join("/sys/fs/cgroup", c))+"\n")
		if _, err := os.Stat(dir); err == nil && !shared && dir != filepath.Join("/sys/fs/cgroup", c) {
			left = append(left, "the control group "+dir)
		}
	}
	slices.Sort(left)
	return left
}

// members lists its processes that are still in it.
func (g *group) members() []string {
	var left []string
	for _, pid := range g.pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		for c, dir := range g.dirs {
			path := strings.TrimPrefix(dir, filepath.Join("/sys/fs/cgroup", c))
			if err == nil && len(path) > 1 && strings.Contains(string(data), ":"+path+"\n") {
				left = append(left, fmt.Sprintf("process %d", pid))
				break
			}
		}
	}
	return left
}
