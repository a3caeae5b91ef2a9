package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/sandbox"
)

// kernelProcess is the name that gVisor's kernel has as a process of the host.
const kernelProcess = "runsc-sandbox"

// process is one of the host's.
type process struct {
	pid  int
	exe  string // the file, as a path that opens it
	argv []string
}

// kernels are the host's processes that a job's system calls go to: gVisor's kernel,
// or where there is none the processes of the sandbox themselves.
func (b *Bench) kernels(ctx context.Context, live *Live) ([]process, error) {
	pids, err := b.Processes(ctx, live.Job)
	if err != nil {
		return nil, err
	}
	var all, own []process
	for _, pid := range pids {
		argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || len(argv) == 0 {
			continue // it has ended
		}
		p := process{pid, fmt.Sprintf("/proc/%d/exe", pid), strings.Split(strings.TrimRight(string(argv), "\x00"), "\x00")}
		if p.argv[0] == kernelProcess {
			own = append(own, p)
		}
		if same, _ := sameContent(p.exe, b.Guest); same {
			all = append(all, p)
		}
	}
	switch {
	case len(own) > 0:
		return own, nil
	case len(all) > 0:
		return all, nil
	}
	return nil, fmt.Errorf("none of the processes %v is the sandbox's kernel", pids)
}

// unseen is what became of looking at processes that could not be found.
func unseen(err error) Outcome {
	if errors.Is(err, sandbox.ErrElsewhere) {
		return Outcome{notRun, err.Error()}
	}
	return Outcome{CouldNotRun, err.Error()}
}

// sameContent says whether two files are the same file or have the same content.
func sameContent(a, b string) (bool, error) {
	fa, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	fb, err := os.Stat(b)
	if err != nil || os.SameFile(fa, fb) || fa.Size() != fb.Size() {
		return err == nil && os.SameFile(fa, fb), err
	}
	da, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	db, err := os.ReadFile(b)
	return err == nil && bytes.Equal(da, db), err
}

// watchRuntime compares the program that runs the sandbox with the one that was
// registered.
func watchRuntime(ctx context.Context, b *Bench, live *Live) Outcome {
	list, err := b.kernels(ctx, live)
	if err != nil {
		return unseen(err)
	}
	for _, p := range list {
		if guest, _ := sameContent(p.exe, b.Guest); guest {
			return Outcome{Broken, fmt.Sprintf("the agent itself is process %d of the host", p.pid)}
		}
		ok, err := b.registered(p.exe)
		if err != nil {
			return Outcome{CouldNotRun, err.Error()}
		}
		if !ok {
			path, _ := os.Readlink(p.exe)
			return Outcome{Broken, fmt.Sprintf("process %d runs %q, which isn't the registered runtime", p.pid, path)}
		}
	}
	return Outcome{Verdict: Held}
}

// registered says whether a program is the runtime that is bound: by its digest, or
// by its path where only that is known.
func (b *Bench) registered(exe string) (bool, error) {
	digest, err := disk.Digest(exe)
	if err != nil {
		return false, err
	}
	if digest == b.bound.RuntimeDigest {
		return true, nil
	}
	if args := b.bound.RuntimeArgs; len(args) > 0 && filepath.IsAbs(args[0]) {
		return sameContent(exe, args[0])
	}
	if b.bound.RuntimeDigest == "" {
		return false, errors.New("which runtime is registered is not known")
	}
	return false, nil
}

// watchSeccomp looks at each thread.
func watchSeccomp(ctx context.Context, b *Bench, live *Live) Outcome {
	list, err := b.kernels(ctx, live)
	if err != nil {
		return unseen(err)
	}
	var broken, unsure []string
	seen := 0
	for _, p := range list {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.pid)) // none when it has ended
		for _, t := range tasks {
			data, err := os.ReadFile(t)
			if err != nil {
				continue // a thread that has ended
			}
			seen++
			if !bytes.Contains(data, []byte("\nSeccomp:\t2\n")) {
				broken = append(broken, t+" has no filter")
			}
			if !bytes.Contains(data, []byte("\nNoNewPrivs:\t1\n")) {
				broken = append(broken, t+" may gain privileges")
			}
		}
	}
	if seen == 0 {
		unsure = append(unsure, "there were no threads to look at")
	}
	return verdict(broken, unsure)
}

// namespaces that a sandbox's kernel must have of its own. gVisor's own user
// namespace is one more guard, which a kernel that is shared doesn't have.
func (b *Bench) namespaces() []string {
	list := []string{"pid", "net", "ipc", "mnt", "uts"}
	if b.Family() == GVisor {
		list = append(list, "user")
	}
	return list
}

func watchNamespaces(ctx context.Context, b *Bench, live *Live) Outcome {
	list, err := b.kernels(ctx, live)
	if err != nil {
		return unseen(err)
	}
	var broken, unsure []string
	for _, p := range list {
		for _, ns := range b.namespaces() {
			own, err1 := os.Readlink("/proc/self/ns/" + ns)
			its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.pid, ns))
			if err := errors.Join(err1, err2); err != nil {
				unsure = append(unsure, err.Error())
			} else if own == its {
				broken = append(broken, fmt.Sprintf("process %d is in the host's %s namespace", p.pid, ns))
			}
		}
	}
	slices.Sort(broken)
	return verdict(broken, unsure)
}
