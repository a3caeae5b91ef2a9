package client

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Command is a program and its arguments. In JSON it is a list, or a line for
// /bin/sh.
type Command []string

// UnmarshalJSON takes both forms.
func (c *Command) UnmarshalJSON(b []byte) error {
	var line string
	if json.Unmarshal(b, &line) == nil {
		*c = Command{"/bin/sh", "-c", line}
		return nil
	}
	var argv []string
	if err := json.Unmarshal(b, &argv); err != nil {
		return errors.New(`"run" is neither a list of strings nor a line`)
	}
	*c = argv
	return nil
}

// Duration is a time span, in JSON a text such as "90s" or "1h30m".
type Duration time.Duration

// MarshalText writes it as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it as Go does.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return errors.New(`write a time such as "90s" or "1h30m"`)
	}
	*d = Duration(v)
	return nil
}

// Size is a number of bytes, in JSON a text such as "512MiB". Units are powers of
// 1024, whether written K, KB or KiB.
type Size int64

var errSize = errors.New(`write a size such as "512MiB" or "4G"`)

const sizeUnits = "bkmgt"

// MarshalText writes the number of bytes.
func (s Size) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// UnmarshalText reads a number and its unit.
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.ToLower(string(b))
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(text[len(digits):])
	power := 0
	if unit != "" {
		power = strings.IndexByte(sizeUnits, unit[0])
		rest := unit[1:]
		if power < 0 || power == 0 && rest != "" || rest != "" && rest != "b" && rest != "ib" {
			return errSize
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	n *= math.Pow(1024, float64(power))
	if err != nil || math.IsNaN(n) || n < 0 || n > 1<<60 {
		return errSize
	}
	*s = Size(n)
	return nil
}
