package queue

import (
	"bytes"
	"testing"

	"github.com/quavon/quavon/runner/queue/chunk"
	"github.com/quavon/quavon/runner/queue/envelope"
)

func testKeys(t testing.TB) *envelope.Keyring {
	t.Helper()
	k, err := envelope.NewKeyring(bytes.Repeat([]byte("ab"), 16))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var logContext = envelope.Context{Purpose: envelope.PurposeOutput, Audience: "submitters/default", Job: "j", Attempt: 1, Runner: "r1"}

// sealedFrames is a log of three frames.
func sealedFrames(t testing.TB, k *envelope.Keyring) (raw [][]byte) {
	t.Helper()
	id := envelope.Nonce{5}
	key := k.ActiveID()
	s := k.Sealer(logContext, id)
	for i, f := range []Frame{{Kind: Stdout, Step: 1, Data: []byte("hello")}, {Kind: Stderr, Data: []byte("world")}, {Kind: frameEnd}} {
		b := append(append([]byte{}, id[:]...), key[:]...)
		raw = append(raw, s.Seal(b, encodeFrame(nil, f), uint64(i), f.Kind == frameEnd))
	}
	return raw
}

func TestFrames(t *testing.T) {
	k := testKeys(t)
	raw := sealedFrames(t, k)
	r := &frameReader{keys: k, context: logContext}
	f, err := r.open(raw[0])
	if err != nil || f.Kind != Stdout || f.Step != 1 || string(f.Data) != "hello" || f.Attempt != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := r.open(raw[2]); envelope.CauseOf(err) != envelope.Tampered {
		t.Errorf("a frame was left out: %v", err)
	}
	if _, err := r.open(raw[0]); envelope.CauseOf(err) != envelope.Tampered {
		t.Errorf("a frame came twice: %v", err)
	}
	for _, b := range raw[1:] {
		if _, err := r.open(b); err != nil {
			t.Error(err)
		}
	}
	if !r.ended {
		t.Error("the log has not ended")
	}
	if _, err := r.open(raw[2]); err == nil {
		t.Error("a frame after the end")
	}
}

func FuzzFrame(f *testing.F) {
	k := testKeys(f)
	raw := sealedFrames(f, k)
	for _, b := range raw {
		f.Add(b)
		f.Add(b[frameHead:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &frameReader{keys: k, context: logContext}
		if got, err := r.open(b); err == nil && !bytes.Equal(b, raw[0]) {
			t.Errorf("forged: %+v", got)
		} else if err != nil && envelope.CauseOf(err) == "" {
			t.Errorf("an error that isn't a refusal: %v", err)
		}
		// What comes out of a seal is checked too: a runner may be hostile.
		frame, err := decodeFrame(b)
		if err == nil && !bytes.Equal(encodeFrame(nil, frame), b) {
			t.Errorf("another spelling: %+v", frame)
		}
	})
}

func FuzzBody(f *testing.F) {
	ref := chunk.Ref{Chunks: 1, Bytes: 3}
	for _, files := range [][]File{nil, {{"a", ref}}, {{"patch", ref}, {"report.xml", ref}}} {
		b, err := encodeBody(files, []byte("payload"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		files, payload, err := decodeBody(b)
		if err != nil {
			if envelope.CauseOf(err) == "" {
				t.Errorf("an error that isn't a refusal: %v", err)
			}
			return
		}
		again, err := encodeBody(files, payload)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("another spelling: %+v %v", files, err)
		}
	})
}
