package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// script is a peer that says what Reader holds and hears nothing.
type script struct{ io.Reader }

func (*script) Write(p []byte) (int, error) { return len(p), nil }
func (*script) Close() error                { return nil }

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

// TestSealData: what is coded by hand is what the generated code reads.
func TestSealData(t *testing.T) {
	t.Parallel()
	for _, stream := range []uint32{1, 127, 128, math.MaxUint32} {
		for ch := range Channel(numChannels) {
			for _, n := range []int{0, 1, 127, 128, MaxData} {
				buf := make([]byte, headRoom+MaxData)
				for i := range n {
					buf[headRoom+i] = byte(i)
				}
				want := bytes.Clone(buf[headRoom : headRoom+n])
				sealed := sealData(buf, stream, ch, headRoom+n)
				var f agentpb.Frame
				if err := proto.Unmarshal(sealed[lengthSize:], &f); err != nil {
					t.Fatal(err)
				}
				if f.GetStream() != stream || f.GetChannel() != uint32(ch) || !bytes.Equal(f.GetData(), want) {
					t.Errorf("stream %d, channel %d, %d bytes come out otherwise", stream, ch, n)
				}
				body := sealed[lengthSize:]
				got, head, ok := decodeData(body[:min(len(body), dataHead)], len(body))
				if !ok || got.stream != stream || got.channel != ch || got.size != n || head != len(body)-n {
					t.Errorf("stream %d, channel %d, %d bytes aren't recognised", stream, ch, n)
				}
			}
		}
	}
}

func TestFrameReader(t *testing.T) {
	t.Parallel()
	frames := []*agentpb.Frame{hello(3), data(1, 1, 100), data(1, 2, MaxData), {Stream: 5, Body: &agentpb.Frame_End{End: true}}, data(1, 1, 0)}
	stream := encode(t, frames...)
	for name, r := range map[string]io.Reader{
		"whole":    bytes.NewReader(stream),
		"bytes":    iotest.OneByteReader(bytes.NewReader(stream)),
		"with-eof": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fr := frameReader{r: r}
			for i, want := range frames {
				got, err := fr.next()
				if err != nil {
					t.Fatal(i, err)
				}
				if got.msg == nil {
					p := make([]byte, got.size)
					if err := fr.take(p); err != nil {
						t.Fatal(i, err)
					}
					got.msg = &agentpb.Frame{Stream: got.stream, Channel: uint32(got.channel), Body: &agentpb.Frame_Data{Data: p}}
				}
				if !proto.Equal(got.msg, want) {
					t.Errorf("frame %d differs", i)
				}
			}
			if _, err := fr.next(); !errors.Is(err, io.EOF) {
				t.Error("at the end:", err)
			}
			if len(fr.buf) > MaxFrame {
				t.Error("the buffer has grown to", len(fr.buf))
			}
		})
	}
}

func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	f := &agentpb.Frame{Body: &agentpb.Frame_Open{Open: &agentpb.Request{
		Op: &agentpb.Request_Stat{Stat: &agentpb.Stat{Path: string(make([]byte, MaxFrame))}},
	}}}
	if _, err := appendFrame(nil, f); err == nil {
		t.Error("a message above the bound was encoded")
	}
}

// FuzzDecode: the decoder of data frames and the generated one agree.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, data(1, 1, 3))[lengthSize:])
	f.Add(encode(f, hello(1))[lengthSize:])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, head, ok := decodeData(b, len(b))
		if !ok {
			_, _ = decode(b)
			return
		}
		var want agentpb.Frame
		if err := proto.Unmarshal(b, &want); err != nil {
			t.Fatal("only one decoder takes this:", err)
		}
		if want.GetStream() != got.stream || want.GetChannel() != uint32(got.channel) || !bytes.Equal(want.GetData(), b[head:]) {
			t.Errorf("%v, %v", &want, got)
		}
	})
}
