package imagebuild

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/quavon/quavon/runner/image/lock"
)

// tidy removes what only locks name that are no more: the one before the previous,
// and a trial's. The lock and the previous one keep their files and images. What
// can't be removed is told, and no reason to fail.
func (b *Builder) tidy(ctx context.Context, files *lockFiles, after *lock.File) {
	keep := map[string]bool{}
	for _, l := range []*lock.File{after, files.current} {
		each(l, func(img *lock.Image, p *lock.Platform) {
			keep[Tag(img.Name, p.Config)] = true
			for _, path := range paths(p) {
				keep[path] = true
			}
		})
	}
	for _, l := range files.others {
		each(l, func(img *lock.Image, p *lock.Platform) {
			for _, path := range paths(p) {
				if !keep[path] {
					b.remove(path)
				}
			}
			if tag := Tag(img.Name, p.Config); img.Source == lock.SourceDockerDaemon && !keep[tag] && b.engine != nil {
				if err := b.engine.Untag(ctx, tag); err != nil {
					b.tell(Event{Image: img.Name, Platform: p.Platform, Text: "can't remove " + tag + ": " + err.Error()})
				}
			}
		})
	}
}

// remove removes a file that an older lock names, if it is one of ours.
func (b *Builder) remove(path string) {
	if !strings.HasPrefix(path, FilesDir+"/") {
		return
	}
	if err := os.Remove(b.beside(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.tell(Event{Image: path, Text: err.Error()})
	}
}

func each(l *lock.File, f func(*lock.Image, *lock.Platform)) {
	if l == nil {
		return
	}
	for i := range l.Images {
		for j := range l.Images[i].Platforms {
			f(&l.Images[i], &l.Images[i].Platforms[j])
		}
	}
}

// paths are the files beside the lock that a platform has.
func paths(p *lock.Platform) []string {
	var out []string
	if p.SBOM != nil {
		out = append(out, p.SBOM.Path)
	}
	for _, a := range p.Artefacts {
		out = append(out, a.Path)
	}
	return out
}
