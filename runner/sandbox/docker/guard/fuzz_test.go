package guard

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// What parse accepts has one meaning: an engine's decoder, which folds case and takes
// the last of equal keys, reads the same from the body as from what was checked.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"HostConfig":{"Privileged":true}}`, `{"a":1,"A":2}`, `{"k":1,"\u212a":2}`, `[1,{"x":null}]`, `{"a":1}{}`, `{"\u0061":1,"a":2}`, `{"s":1,"\u017f":2}`,
		"{\"a\":\"\xff\"}", `{"Memory":1e3}`, `"x"`, `{"":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parse(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fromBody, fromChecked createBody
		errBody, errChecked := json.Unmarshal(data, &fromBody), json.Unmarshal(again, &fromChecked)
		if (errBody == nil) != (errChecked == nil) || errBody == nil && !reflect.DeepEqual(fromBody, fromChecked) {
			t.Errorf("%q is read as %+v, %v, but was checked as %+v, %v", data, fromBody, errBody, fromChecked, errChecked)
		}
	})
}

// What conforms to the schema decodes without a key that the schema doesn't have.
func FuzzDecode(f *testing.F) {
	f.Add(`{"Image":"x","HostConfig":{"Binds":null,"Runtime":"runsc","Mounts":[{"Type":"volume"}]}}`)
	f.Add(`{"hostConfig":{}}`)
	f.Add(`{"HostConfig":{"Privileged":false,"Binds":["/"]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var b createBody
		if err := decode(strings.NewReader(body), schemas, "create", &b); err != nil {
			return
		}
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &raw); err != nil {
			t.Fatal(err)
		}
		for k := range raw {
			if _, ok := schemas["create"][k]; !ok {
				t.Errorf("the key %q passed", k)
			}
		}
		_ = (&Guard{}).checkCreate("x", &b)
	})
}
