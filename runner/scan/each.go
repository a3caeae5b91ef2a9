package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxElements bounds a list of a scanner's, and with it the time that it takes.
const maxElements = 1 << 20

// each hands on an array's elements one by one: a list of tiny ones, as a whole, would
// take a hundred times its own size in memory. Those before an error count.
func each[T any](raw []byte, do func(T)) error {
	in, err := enter(raw, '[')
	if in == nil {
		return err
	}
	for n := 0; in.More(); n++ {
		var v T
		if n == maxElements {
			return fmt.Errorf("a list has more than %d elements", n)
		}
		if err := in.Decode(&v); err != nil {
			return err
		}
		do(v)
	}
	return ended(in)
}

// members is each for an object, whose members are all of one type.
func members[T any](raw []byte, do func(name string, v T)) error {
	in, err := enter(raw, '{')
	if in == nil {
		return err
	}
	for n := 0; in.More(); n++ {
		name, err := in.Token()
		if n == maxElements {
			err = fmt.Errorf("an object has more than %d members", n)
		}
		if err != nil {
			return err
		}
		var v T
		if err := in.Decode(&v); err != nil {
			return err
		}
		do(fmt.Sprint(name), v)
	}
	return ended(in)
}

// enter reads the beginning of a list or an object. It returns nil when there is none:
// the field is missing, or null.
func enter(raw []byte, begin json.Delim) (*json.Decoder, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	switch first, err := in.Token(); {
	case err != nil || first == nil:
		return nil, err
	case first != begin:
		return nil, map[json.Delim]error{'[': errors.New("it is no list"), '{': errors.New("it is no object")}[begin]
	}
	return in, nil
}

// ended reads the end of a list or an object, behind which nothing may follow.
func ended(in *json.Decoder) error {
	if _, err := in.Token(); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows behind its end")
	}
	return nil
}
