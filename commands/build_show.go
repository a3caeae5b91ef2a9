package commands

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/runner/fault"
)

// check says what of the lock isn't up to date.
func (o *buildImagesOptions) check(ctx context.Context, b *imagebuild.Builder) error {
	stale, err := b.Check(ctx, o.Names)
	if err != nil {
		return err
	}
	for _, s := range stale {
		o.note("%s: %s", strings.TrimSpace(s.Image+" "+s.Platform), printable(s.Why))
	}
	if len(stale) == 0 {
		o.note("%s is up to date", b.Lock)
		return nil
	}
	return &exitError{exitFail, fault.New(b.Lock+" is not up to date", "run `quavon build images`")}
}

// showBuilt prints a line for each image of the lock that this run was about.
func (o *buildImagesOptions) showBuilt(b *imagebuild.Builder, r *imagebuild.Result) error {
	switch {
	case r.Changed:
		o.note("wrote %s", b.Lock)
	case r.Made == 0:
		o.note("%s is up to date: nothing to do", b.Lock)
	default:
		o.note("%s has not changed", b.Lock)
	}
	for _, img := range r.After.Images {
		if len(o.Names) > 0 && !contains(o.Names, img.Name) {
			continue
		}
		for _, p := range img.Platforms {
			if _, err := fmt.Fprintf(o.IO.Out, "%s  %s  %s\n", p.Config, p.Platform, img.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

// buildProgress shows a build: on a terminal one line that says what goes on, and
// a line for each step that has ended; elsewhere only the latter.
type buildProgress struct {
	p       *program
	tty     bool
	verbose bool

	mu    sync.Mutex
	next  time.Time
	shown bool
}

func (o *buildImagesOptions) newBuildProgress() *buildProgress {
	return &buildProgress{p: o.program, tty: o.IO.ErrIsTerminal(), verbose: o.Verbose}
}

func (b *buildProgress) event(e imagebuild.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	who := strings.TrimSpace(e.Image + " " + e.Platform)
	switch {
	case e.Log != "" && b.verbose:
		b.line(who, "| "+e.Log)
	case e.Log != "" || e.Going:
		b.going(who, e)
	default:
		b.line(who, e.Text)
	}
}

func (b *buildProgress) line(who, text string) {
	b.wipe()
	b.p.note("%s: %s", who, printable(text))
}

// going replaces the last line of a terminal.
func (b *buildProgress) going(who string, e imagebuild.Event) {
	if now := time.Now(); b.tty && !now.Before(b.next) {
		b.next, b.shown = now.Add(100*time.Millisecond), true
		text := e.Text
		if e.Log != "" {
			text += ": " + e.Log
		}
		if e.Done > 0 {
			text += " " + approx(e.Done)
		}
		if e.Total > 0 {
			text += fmt.Sprintf(" (%d%%)", min(100, 100*e.Done/e.Total))
		}
		_, cols := b.p.IO.Size()
		_, _ = fmt.Fprintf(b.p.IO.ErrOut, "\r%s\x1b[K", cut(printable(who+": "+text), int(cols)-1)) // nobody can be told
	}
}

func (b *buildProgress) wipe() {
	if b.shown {
		_, _ = fmt.Fprint(b.p.IO.ErrOut, "\r\x1b[K")
		b.shown = false
	}
}

// clear takes the line back.
func (b *buildProgress) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wipe()
}

// cut makes a text fit on a line.
func cut(s string, most int) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if r := []rune(s); len(r) > most && most > 0 {
		return string(r[:most-1]) + "…"
	}
	return s
}
