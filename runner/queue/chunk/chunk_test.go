package chunk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// memory is a store that can be tampered with.
type memory struct {
	sync.Mutex
	chunks map[uint32][]byte
	putErr error
}

func (m *memory) Put(_ context.Context, i uint32, b []byte) error {
	m.Lock()
	defer m.Unlock()
	if m.putErr != nil && i == 3 {
		return m.putErr
	}
	if m.chunks == nil {
		m.chunks = map[uint32][]byte{}
	}
	m.chunks[i] = bytes.Clone(b)
	return nil
}

func (m *memory) Get(_ context.Context, i uint32, size int) ([]byte, error) {
	m.Lock()
	defer m.Unlock()
	b := bytes.Clone(m.chunks[i])
	return b[:min(len(b), size+1)], nil
}

func keyring(t testing.TB) *envelope.Keyring {
	t.Helper()
	s := make([]byte, envelope.KeySize)
	_, _ = rand.Read(s)
	k, err := envelope.NewKeyring(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var where = envelope.Context{Purpose: envelope.PurposeSnapshot, Audience: "runners/default", Job: "j1"}

const limit = 64 << 20

func write(t testing.TB, m *memory, k *envelope.Keyring, data []byte) Ref {
	t.Helper()
	w := NewWriter(t.Context(), m, k, where, limit)
	if _, err := io.Copy(struct{ io.Writer }{w}, iotest.HalfReader(bytes.NewReader(data))); err != nil {
		t.Fatal(err)
	}
	ref, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t testing.TB, m *memory, k *envelope.Keyring, c envelope.Context, ref Ref) ([]byte, error) {
	t.Helper()
	r, err := NewReader(t.Context(), m, k, c, ref, limit)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestWriteAndRead(t *testing.T) {
	k := keyring(t)
	for _, n := range []int{0, 1, Size - 1, Size, Size + 1, 3 * Size, 20*Size + 5} {
		m, data := &memory{}, random(n)
		ref := write(t, m, k, data)
		if int(ref.Bytes) != n || int(ref.Chunks) != len(m.chunks) || ref.Chunks != chunks(int64(n)) {
			t.Errorf("%d bytes: %+v, %d stored", n, ref, len(m.chunks))
		}
		got, err := read(t, m, k, where, ref)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d, %v", n, len(got), err)
		}
		again, rest, err := CutRef(append(ref.Append(nil), "rest"...))
		if err != nil || again != ref || string(rest) != "rest" {
			t.Errorf("reference: %+v %q %v", again, rest, err)
		}
	}
}

// Whatever is done to the stored chunks, no byte that wasn't written is read, and no
// end comes early.
func TestTampered(t *testing.T) {
	k := keyring(t)
	data := random(5*Size + 100)
	for name, c := range map[string]struct {
		edit func(m *memory, ref *Ref)
		want envelope.Cause
	}{
		"bit":            {func(m *memory, _ *Ref) { m.chunks[2][1000] ^= 1 }, envelope.Tampered},
		"missing":        {func(m *memory, _ *Ref) { delete(m.chunks, 3) }, envelope.Truncated},
		"shorter":        {func(m *memory, _ *Ref) { m.chunks[3] = m.chunks[3][:Size] }, envelope.Truncated},
		"longer":         {func(m *memory, _ *Ref) { m.chunks[3] = append(m.chunks[3], 0) }, envelope.Truncated},
		"reordered":      {func(m *memory, _ *Ref) { m.chunks[1], m.chunks[2] = m.chunks[2], m.chunks[1] }, envelope.Tampered},
		"repeated":       {func(m *memory, _ *Ref) { m.chunks[1] = m.chunks[0] }, envelope.Tampered},
		"cut at a chunk": {func(_ *memory, r *Ref) { r.Chunks, r.Bytes = 5, 5*Size }, envelope.Tampered},
		"another stream": {func(_ *memory, r *Ref) { r.Stream[0] ^= 1 }, envelope.Tampered},
		"another key":    {func(_ *memory, r *Ref) { r.Key[0] ^= 1 }, envelope.WrongKey},
		"too large":      {func(_ *memory, r *Ref) { r.Bytes = limit + 1 }, envelope.TooLarge},
	} {
		m := &memory{}
		ref := write(t, m, k, data)
		c.edit(m, &ref)
		got, err := read(t, m, k, where, ref)
		if envelope.CauseOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if !bytes.HasPrefix(data, got) {
			t.Errorf("%s: bytes that nobody wrote", name)
		}
	}
}

// Chunks of one stream don't fit into another: of another job, attempt, purpose, or of
// the same one written twice.
func TestSwapped(t *testing.T) {
	k := keyring(t)
	a, b := &memory{}, &memory{}
	data := random(3 * Size)
	refA, _ := write(t, a, k, data), write(t, b, k, data)
	a.chunks[1] = b.chunks[1]
	if _, err := read(t, a, k, where, refA); envelope.CauseOf(err) != envelope.Tampered {
		t.Errorf("a chunk of a stream with the same content: %v", err)
	}
	m := &memory{}
	ref := write(t, m, k, data)
	for name, edit := range map[string]func(*envelope.Context){
		"job":     func(c *envelope.Context) { c.Job = "j2" },
		"attempt": func(c *envelope.Context) { c.Attempt = 1 },
		"purpose": func(c *envelope.Context) { c.Purpose = envelope.PurposeFiles },
		"thread":  func(c *envelope.Context) { c.Thread = envelope.Nonce{1} },
	} {
		c := where
		edit(&c)
		if _, err := read(t, m, k, c, ref); envelope.CauseOf(err) != envelope.Tampered {
			t.Errorf("of another %s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	w := NewWriter(t.Context(), &memory{}, keyring(t), where, 10)
	_, err := w.Write(random(11))
	if _, err2 := w.Close(); envelope.CauseOf(err) != envelope.TooLarge || envelope.CauseOf(err2) != envelope.TooLarge {
		t.Errorf("too long a stream: %v, %v", err, err2)
	}
	failed := errors.New("full")
	w = NewWriter(t.Context(), &memory{putErr: failed}, keyring(t), where, limit)
	_, err = io.Copy(struct{ io.Writer }{w}, bytes.NewReader(random(60*Size)))
	if _, err2 := w.Close(); !errors.Is(err, failed) || !errors.Is(err2, failed) {
		t.Errorf("a store that fails: %v, %v", err, err2)
	}
}

func TestClose(t *testing.T) {
	k, m := keyring(t), &memory{}
	ref := write(t, m, k, random(20*Size))
	r, err := NewReader(t.Context(), m, k, where, ref, limit)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Read(make([]byte, 10))
	r.Close()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, errClosed) {
		t.Errorf("read after close: %v", err)
	}
}

func FuzzCutRef(f *testing.F) {
	f.Add(Ref{Chunks: 1}.Append(nil))
	f.Add(Ref{Chunks: 3, Bytes: 2*Size + 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := CutRef(b)
		if err == nil && !slices.Equal(append(r.Append(nil), rest...), b) {
			t.Errorf("%+v is not what was read", r)
		}
	})
}
