package queue

import (
	"github.com/quavon/quavon/runner/queue/chunk"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// File is a named stream of a job or of its result.
type File struct {
	Name string
	Ref  chunk.Ref
}

// maxFiles and maxName bound the files of one message.
const (
	maxFiles = 64
	maxName  = 200
)

// encodeBody is a message's content: how many files, each with its name's length,
// name and reference, and then the payload.
func encodeBody(files []File, payload []byte) ([]byte, error) {
	if len(files) > maxFiles {
		return nil, envelope.Refuse(envelope.TooLarge, "more than %d files", maxFiles)
	}
	b := []byte{byte(len(files))}
	for _, f := range files {
		if f.Name == "" || len(f.Name) > maxName {
			return nil, envelope.Refuse(envelope.Malformed, "a file's name of %d bytes", len(f.Name))
		}
		b = append(append(b, byte(len(f.Name))), f.Name...)
		b = f.Ref.Append(b)
	}
	return append(b, payload...), nil
}

func decodeBody(b []byte) (files []File, payload []byte, err error) {
	bad := envelope.Refuse(envelope.Malformed, "a message's content")
	if len(b) == 0 || b[0] > maxFiles {
		return nil, nil, bad
	}
	n, b := int(b[0]), b[1:]
	for range n {
		if len(b) == 0 || b[0] == 0 || b[0] > maxName || len(b) < 1+int(b[0]) {
			return nil, nil, bad
		}
		f := File{Name: string(b[1 : 1+b[0]])}
		if f.Ref, b, err = chunk.CutRef(b[1+b[0]:]); err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	return files, b, nil
}
