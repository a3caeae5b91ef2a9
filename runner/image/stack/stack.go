// Package stack reads an image's layers, several at once, and merges them into one
// tree. The bottom layer's contents may go straight to their final place; those of
// the others wait in spools until it is known which of them are still there.
package stack

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/source"
)

// maxParallel bounds how many layers are read at once, and so the memory it takes.
const maxParallel = 4

// Sink stores the contents of one layer.
type Sink interface {
	flatten.Data
	// Release is called once, after the layer's last content.
	Release() error
}

// Reader reads the layers of an image.
type Reader struct {
	Image  *source.Image
	Budget *flatten.Budget
	// Progress is told how many more bytes came from the source. It is called from
	// several goroutines.
	Progress func(n int)
	// Sink is asked once for each layer, from several goroutines.
	Sink func(layer int) Sink
}

// Read returns the merged tree, not finished.
func (r *Reader) Read(ctx context.Context) (*flatten.Tree, error) {
	group, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, min(maxParallel, runtime.GOMAXPROCS(0)))
	trees := make([]chan *flatten.Tree, len(r.Image.Layers))
	for i := range trees {
		trees[i] = make(chan *flatten.Tree, 1)
	}
	group.Go(func() error {
		for i := range trees {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			group.Go(func() error {
				defer func() { <-slots }()
				t, err := r.scan(ctx, i)
				trees[i] <- t
				return err
			})
		}
		return nil
	})
	tree := flatten.NewTree()
	group.Go(func() error { return merge(ctx, tree, trees) })
	return tree, group.Wait()
}

// merge puts the layers on top of each other as they come, bottom first.
func merge(ctx context.Context, tree *flatten.Tree, layers []chan *flatten.Tree) error {
	for _, c := range layers {
		select {
		case upper := <-c:
			if upper == nil {
				return nil // its reader has the error
			}
			if err := tree.Merge(upper); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *Reader) scan(ctx context.Context, i int) (t *flatten.Tree, err error) {
	l, err := r.Image.Layers[i].Open(ctx, r.Progress)
	if err != nil {
		return nil, fmt.Errorf("layer %d: %w", i, err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	sink := r.Sink(i)
	if t, err = flatten.Scan(l, i, sink, r.Budget); err != nil {
		return nil, err
	}
	return t, sink.Release()
}

// Above lists the files of a finished tree whose content lies above the bottom
// layer, in the order it was stored.
func Above(t *flatten.Tree) []*flatten.Inode {
	var list []*flatten.Inode
	_ = t.Inodes(func(_ flatten.ID, i *flatten.Inode) error { // it returns only our own errors
		if i.Layer > 0 && i.Nlink > 0 && i.Size > 0 {
			list = append(list, i)
		}
		return nil
	})
	slices.SortFunc(list, func(x, y *flatten.Inode) int {
		if x.Layer != y.Layer {
			return int(x.Layer) - int(y.Layer)
		}
		return int((x.Data - y.Data) >> 12)
	})
	return list
}
