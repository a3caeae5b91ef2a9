package client_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/task"
)

type schema struct {
	Properties map[string]schema `json:"properties"`
	Defs       map[string]schema `json:"$defs"`
	Pattern    string            `json:"pattern"`
	Closed     *bool             `json:"additionalProperties"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "job.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	// additionalProperties is a schema for env, which isn't looked at here.
	text = regexp.MustCompile(`"additionalProperties": \{[^}]*\}`).ReplaceAll(text, []byte(`"additionalProperties": true`))
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchema compares the schema's properties with the fields that Read takes.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for _, c := range []struct {
		name string
		have schema
		of   reflect.Type
	}{
		{"job", s, reflect.TypeFor[client.Job]()},
		{"step", s.Defs["step"], reflect.TypeFor[client.Step]()},
		{"limits", s.Defs["limits"], reflect.TypeFor[client.Limits]()},
		{"outbox", s.Defs["outbox"], reflect.TypeFor[task.Outbox]()},
	} {
		var fields, properties []string
		for i := range c.of.NumField() {
			if name, _, _ := strings.Cut(c.of.Field(i).Tag.Get("json"), ","); name != "-" {
				fields = append(fields, name)
			}
		}
		for name := range c.have.Properties {
			properties = append(properties, name)
		}
		slices.Sort(fields)
		slices.Sort(properties)
		if !slices.Equal(fields, properties) {
			t.Errorf("%s: the schema has %v, Read takes %v", c.name, properties, fields)
		}
		if c.have.Closed == nil || *c.have.Closed {
			t.Errorf("%s: the schema takes other properties too", c.name)
		}
	}
}

// TestSchemaPatterns: what the schema takes for a size or a time, Read takes as well.
func TestSchemaPatterns(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for def, values := range map[string]map[string]bool{
		"size":     {"512MiB": true, "4G": true, "1.5 GB": true, "100": true, "7b": true, "-1": false, "x": false, "1X": false, "": false},
		"duration": {"90s": true, "1h30m": true, "250ms": true, "1.5h": true, "-1s": false, "90": false, "": false},
	} {
		pattern := regexp.MustCompile(s.Defs[def].Pattern)
		field := map[string]string{"size": "memory", "duration": "time"}[def]
		for v, good := range values {
			doc := `{"steps":[{"run":"true"}],"limits":{"` + field + `":"` + v + `"}}`
			_, err := client.Read(strings.NewReader(doc))
			if pattern.MatchString(v) != good || (err == nil) != good {
				t.Errorf("%s %q: the schema says %v, Read %v, want %v", def, v, pattern.MatchString(v), err, good)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	j, err := client.Read(strings.NewReader(`{"steps": [{"run": "make test"}, {"run": ["a", "b"], "timeout": "90s", "env": {"A": "b"}}],
		"limits": {"memory": "1.5 GiB"}, "start_in": "5m"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(j.Steps[0].Run, "|"); got != "/bin/sh|-c|make test" {
		t.Errorf("a line became %q", got)
	}
	if time.Duration(j.Steps[1].Timeout) != 90*time.Second || j.Limits.Memory != 3<<29 || time.Duration(j.StartIn) != 5*time.Minute {
		t.Errorf("values: %+v", j)
	}
	for name, text := range map[string]string{
		"no JSON": "make test", "unknown field": `{"steps":[],"privileged":true}`, "unknown field of a step": `{"steps":[{"run":"a","tty":true}]}`,
		"two documents": `{"steps":[{"run":"a"}]} {"steps":[]}`, "run": `{"steps":[{"run":1}]}`, "empty": "",
	} {
		if _, err := client.Read(strings.NewReader(text)); fault.Code(err) != "rejected" || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
