package ext4

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	bufferSize = 1 << 20
	// windowSize is the unit that is looked at for zeros.
	windowSize   = 64 << 10
	windowBlocks = windowSize / BlockSize
)

// run is n blocks from start.
type run struct{ start, n uint32 }

// stream hands out the blocks of the image in order and writes them in large
// pieces. Blocks of group heads are passed over.
type stream struct {
	f     *os.File
	heads heads
	// limit is in blocks; beyond it, blocks are counted but not written.
	limit int64
	// eager starts to write to the disk at once.
	eager bool
	// buf[:n] belongs at block at.
	at  int64
	buf []byte
	n   int
	// spare is the buffer before, which is being written while done is awaited.
	spare []byte
	busy  bool
	done  chan error
}

func newStream(f *os.File, h heads, limit int64) stream {
	return stream{f: f, heads: h, limit: limit, at: h.after(0), done: make(chan error, 1)}
}

// next is the block that will be handed out next.
func (s *stream) next() int64 { return s.at + int64(s.n>>blockBits) }

// window returns the buffer that the next n bytes, at most windowSize, go to.
func (s *stream) window(n int) ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
	if s.n+windowSize > len(s.buf) {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	return s.buf[s.n : s.n+n], nil
}

// commit keeps n blocks of the window. It calls got once, or twice if a group
// head cuts them in two.
func (s *stream) commit(n int, got func(run)) error {
	first := s.heads.room(s.next())
	if int64(n) < first {
		got(run{uint32(s.next()), uint32(n)})
		s.n += n << blockBits
		return nil
	}
	got(run{uint32(s.next()), uint32(first)})
	rest := s.buf[s.n+int(first)<<blockBits : s.n+n<<blockBits]
	s.n += int(first) << blockBits
	end := s.next()
	if err := s.flush(); err != nil {
		return err
	}
	s.at = s.heads.after(end)
	if len(rest) == 0 {
		return nil
	}
	s.n = copy(s.buf, rest)
	got(run{uint32(s.at), uint32(len(rest) >> blockBits)})
	return nil
}

// skip hands out n blocks that stay holes in the image file.
func (s *stream) skip(n int64, got func(run)) error {
	for n > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		k := min(n, s.heads.room(s.at), maxExtent)
		got(run{uint32(s.at), uint32(k)})
		n -= k
		s.at += k
		if s.heads.room(s.at) == 0 {
			s.at = s.heads.after(s.at)
		}
	}
	return nil
}

// flush begins to write what is in the buffer, once the buffer before is written. So
// one processor reads while another writes.
func (s *stream) flush() error {
	at, p := s.at, s.buf[:s.n]
	s.at, s.n = s.next(), 0
	if s.at > maxImage>>blockBits {
		return fmt.Errorf("the content exceeds the largest image of %d bytes", int64(maxImage))
	}
	if err := s.wait(); err != nil || len(p) == 0 {
		return err
	}
	if s.spare == nil {
		s.spare = make([]byte, bufferSize)
	}
	s.buf, s.spare, s.busy = s.spare, s.buf, true
	go func() { s.done <- s.writeAt(p, at) }()
	return nil
}

// wait returns when nothing is being written any more.
func (s *stream) wait() error {
	if !s.busy {
		return nil
	}
	s.busy = false
	return <-s.done
}

// sync writes everything.
func (s *stream) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.wait()
}

// writeAt writes blocks, unless they lie beyond the image.
func (s *stream) writeAt(p []byte, block int64) error {
	if len(p) == 0 || block+int64(len(p)>>blockBits) > s.limit {
		return nil
	}
	if _, err := s.f.WriteAt(p, block<<blockBits); err != nil {
		return err
	}
	if s.eager {
		// Only a start: what fails here fails again when the file is synced.
		_ = unix.SyncFileRange(int(s.f.Fd()), block<<blockBits, int64(len(p)), unix.SYNC_FILE_RANGE_WRITE)
	}
	return nil
}
