package service

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/quavon/quavon/runner/task"
)

// collected takes the tar stream of files that the job hands back: the outbox is read
// line by line, all others are artefacts for the submitter, who checks them when
// they are unpacked.
func (a *attempt) collected(ctx context.Context, r io.Reader) (err error) {
	s := sorter{outbox: a.task.Outbox}
	if len(a.task.Spec.Collect) == 0 {
		err = s.sort(r, nil)
	} else {
		err = a.upload(ctx, task.FileArtefacts, a.s.Bounds.artefacts(), func(w io.Writer) error {
			tw := tar.NewWriter(w)
			return errors.Join(s.sort(r, tw), tw.Close())
		})
	}
	if err != nil {
		return err // the sorter may still be at it
	}
	a.report.Outbox, a.report.OutboxRefused, a.report.Artefacts = s.lines, s.refused, s.artefacts
	return nil
}

type sorter struct {
	outbox    *task.Outbox
	lines     []json.RawMessage
	refused   []task.Refused
	artefacts int
}

// sort reads the stream's entries; artefacts is nil when none are wanted.
func (s *sorter) sort(r io.Reader, artefacts *tar.Writer) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.outbox != nil && strings.TrimSuffix(h.Name, "/") == s.outbox.Path && h.Typeflag == tar.TypeReg {
			s.lines, s.refused = s.outbox.Read(in)
			continue
		}
		if artefacts == nil {
			continue
		}
		if err := pass(artefacts, h, in); err != nil {
			return err
		}
		s.artefacts++
	}
}

// pass copies an entry, with no more of its header than artefacts need.
func pass(to *tar.Writer, h *tar.Header, content io.Reader) error {
	err := to.WriteHeader(&tar.Header{
		Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, ModTime: h.ModTime,
	})
	if err == nil {
		_, err = io.Copy(to, content)
	}
	return err
}
