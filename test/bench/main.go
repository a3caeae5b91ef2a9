// Command bench measures what it costs to run a command by quavon: against a bare
// `runsc run` of the same bundle and against `docker run` with the same runtime,
// in turn, medians, in one run. It fails when a promise isn't kept.
//
//	bench -runs 20 -bin bin [-docker 'docker -H unix://…']
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	runs := flag.Int("runs", 20, "runs of each arm")
	bin := flag.String("bin", "bin", "directory of quavon and runsc")
	docker := flag.String("docker", "", "docker client and its flags, with a runtime runsc and an image bench")
	flag.Parse()
	ok, err := bench(context.Background(), *bin, *docker, *runs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// bench measures everything and tells whether all promises were kept.
func bench(ctx context.Context, bin, docker string, runs int) (bool, error) {
	dir, err := os.MkdirTemp("/var/lib", "quavon-bench-") // a state directory below /tmp is refused
	if err != nil {
		return false, err
	}
	defer func() {
		// A stock runsc leaves a network namespace mounted in its root.
		_ = unix.Unmount(filepath.Join(dir, "bare", "runsc", "null-netns"), unix.MNT_DETACH)
		_ = os.RemoveAll(dir)
	}()
	q := &quavon{binary: filepath.Join(bin, "quavon"), state: filepath.Join(dir, "state"), workspace: filepath.Join(dir, "ws")}
	if err := os.Mkdir(q.workspace, 0o755); err != nil { //nolint:gosec // what a workspace's mode is like
		return false, err
	}
	bare, err := q.capture(ctx, filepath.Join(dir, "bare"))
	if err != nil {
		return false, err
	}
	stock, err := bare.stock(filepath.Join(dir, "bare"))
	if err != nil {
		return false, err
	}
	arms := []*arm{
		{name: "quavon run -- true", run: q.run},
		{name: "runsc run, same bundle and limits", run: stock.run},
		{name: "runsc run, our flags, no limits", run: bare.run},
		{name: "quavon run --json, for the phases", run: q.inPhases},
	}
	if docker != "" {
		d := dockerRun(strings.Fields(docker))
		arms = append(arms, &arm{name: "docker run --rm --runtime=runsc", run: d.run})
	}
	if err := measure(ctx, arms, runs); err != nil {
		return false, err
	}
	start, err := q.initTime(ctx)
	if err != nil {
		return false, err
	}
	return report(os.Stdout, arms, q.phases, start), nil
}

// arm is one way to run a command, and how long each run took.
type arm struct {
	name string
	run  func(context.Context) error
	took []time.Duration
}

// measure runs the arms in turn, so that what else the machine does hits all
// alike. The first two rounds only warm up.
func measure(ctx context.Context, arms []*arm, runs int) error {
	const warmUp = 2
	for round := range runs + warmUp {
		for _, a := range arms {
			start := time.Now()
			if err := a.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			if round >= warmUp {
				a.took = append(a.took, time.Since(start))
			}
		}
	}
	return nil
}

// report prints the medians and says for each promise whether it is kept.
func report(w io.Writer, arms []*arm, phases map[string][]time.Duration, start time.Duration) bool {
	for _, a := range arms {
		fmt.Fprintf(w, "%-34s %6.1f ms   (%d runs, fastest %.1f)\n", a.name, ms(median(a.took)), len(a.took), ms(slices.Min(a.took)))
	}
	fmt.Fprintf(w, "phases of quavon run:")
	for _, name := range phaseOrder {
		fmt.Fprintf(w, " %s %.1f", name, ms(median(phases[name])))
	}
	fmt.Fprintln(w, " ms")
	ours := median(arms[0].took)
	kept := promise(w, "times bare runsc", float64(ours)/float64(median(arms[1].took)), "≤", 1.35)
	fmt.Fprintf(w, "%-34s %6.2f      for information\n", "times runsc that sets no limits", float64(ours)/float64(median(arms[2].took)))
	kept = promise(w, "ms of its own start (inittrace)", ms(start), "≤", 50) && kept
	if len(arms) > 4 {
		kept = promise(w, "times as fast as docker run", float64(median(arms[4].took))/float64(ours), "≥", 2.5) && kept
	}
	return kept
}

func promise(w io.Writer, what string, got float64, relation string, limit float64) bool {
	kept := got <= limit == (relation == "≤")
	verdict := "ok"
	if !kept {
		verdict = "NOT KEPT"
	}
	fmt.Fprintf(w, "%-34s %6.2f      %s %g: %s\n", what, got, relation, limit, verdict)
	return kept
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
