// Command images measures what images cost: taking one in, against decompressing
// alone and against tar; starting a job in one and reading all over it, against a
// stock `runsc run` with a directory as root; making a file system of one, against the
// least there is to do and against other programs. It fails when a promise isn't kept.
//
//	images -runs 10 -bin bin -base debian.tar -tar2ext4 PROGRAM
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	runs := flag.Int("runs", 10, "runs of each arm")
	bin := flag.String("bin", "bin", "directory of quavon and runsc")
	base := flag.String("base", "", "plain tar of a Debian root, as mmdebstrap makes it")
	only := flag.String("only", "", "images, rootfs or big, all when empty")
	tar2ext4 := flag.String("tar2ext4", "tar2ext4", "hcsshim's program")
	arm := flag.String("child", "", "what a process of the benchmark does")
	flag.Parse()
	if *arm != "" {
		if err := child(*arm, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "images:", err)
			os.Exit(1)
		}
		return
	}
	ok, err := bench(context.Background(), &images{bin: *bin, base: *base}, *only, *tar2ext4, *runs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// bench measures everything and tells whether all promises were kept.
func bench(ctx context.Context, b *images, only, tar2ext4 string, runs int) (bool, error) {
	kept := true
	if only == "" || only == "images" {
		ok, err := b.all(ctx, runs)
		if err != nil {
			return false, err
		}
		kept = ok
	}
	if only != "images" {
		ok, err := b.rootfs(ctx, runs, only, tar2ext4)
		if err != nil {
			return false, err
		}
		kept = kept && ok
	}
	return kept, nil
}

// all runs the parts for images that jobs run in.
func (b *images) all(ctx context.Context, runs int) (kept bool, err error) {
	b.dir, err = os.MkdirTemp("/var/lib", "quavon-bench-") // a state directory below /tmp is refused
	if err != nil {
		return false, err
	}
	b.states = b.dir
	defer func() {
		// A stock runsc leaves a network namespace mounted in its root.
		_ = unix.Unmount(b.path("runsc/null-netns"), unix.MNT_DETACH)
		err = errors.Join(err, os.RemoveAll(b.dir))
	}()
	if err := b.prepare(ctx); err != nil {
		return false, err
	}
	kept = true
	for _, part := range []func(context.Context, int) (bool, error){b.use, b.imports, b.memory} {
		ok, err := part(ctx, runs)
		if err != nil {
			return false, err
		}
		kept = kept && ok
	}
	return kept, nil
}

// arm is one way to do something, and how long each run took.
type arm struct {
	name string
	// before undoes the last run; it isn't measured.
	before func() error
	run    func(context.Context) error
	took   []time.Duration
}

// measure runs the arms in turn, so that what else the machine does hits all
// alike. The first round only warms up.
func measure(ctx context.Context, runs int, arms ...*arm) error {
	for round := range runs + 1 {
		for _, a := range arms {
			if a.before != nil {
				if err := a.before(); err != nil {
					return fmt.Errorf("%s: %w", a.name, err)
				}
			}
			start := time.Now()
			if err := a.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			if round > 0 {
				a.took = append(a.took, time.Since(start))
			}
		}
	}
	for _, a := range arms {
		fmt.Printf("%-44s %7.1f ms   (%d runs, fastest %.1f)\n", a.name, ms(a.median()), len(a.took), ms(slices.Min(a.took)))
	}
	return nil
}

func (a *arm) median() time.Duration {
	s := slices.Sorted(slices.Values(a.took))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func ratio(a, b *arm) float64 { return float64(a.median()) / float64(b.median()) }

func promise(what string, got float64, relation string, limit float64) bool {
	kept := got <= limit == (relation == "≤")
	verdict := "ok"
	if !kept {
		verdict = "NOT KEPT"
	}
	fmt.Printf("%-44s %7.2f      %s %g: %s\n", what, got, relation, limit, verdict)
	return kept
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fresh(dir string) func() error {
	return func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o700)
	}
}

func (b *images) path(name string) string { return filepath.Join(b.dir, name) }
