package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// daemonFile is a daemon.json as dockerd reads it.
type daemonFile struct {
	keys     map[string]json.RawMessage
	runtimes map[string]json.RawMessage
}

// parseDaemonFile reads what dockerd reads: UTF-8, or UTF-16 with a byte order
// mark; nothing, null or one object. Errors have a line and a column.
func parseDaemonFile(data []byte) (*daemonFile, error) {
	text, _, err := dockerd.Decode(data)
	if err != nil {
		return nil, err
	}
	f := &daemonFile{keys: map[string]json.RawMessage{}, runtimes: map[string]json.RawMessage{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return f, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return nil, dockerd.Placed(text, dec, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, dockerd.At(text, int(dec.InputOffset()), "something follows the value")
	}
	if string(whole) == "null" {
		return f, nil
	}
	if whole[0] != '{' {
		return nil, errors.New("line 1: the value is no object")
	}
	return f, f.object(whole)
}

// object collects the keys; dockerd merges runtimes that are given twice.
func (f *daemonFile) object(whole json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(whole))
	_, _ = dec.Token() // the brace, which was parsed before
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		name, _ := key.(string) // an object's keys are strings
		f.keys[name] = value
		if name == "runtimes" && string(value) != "null" {
			if err := json.Unmarshal(value, &f.runtimes); err != nil {
				return errors.New("runtimes is no object")
			}
		}
	}
	return nil
}
