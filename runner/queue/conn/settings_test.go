package conn

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Settings{
		"redis://localhost":                  {Addresses: []string{"localhost:6379"}},
		"valkey://h:1/3":                     {Addresses: []string{"h:1"}, DB: 3},
		"rediss://h":                         {Addresses: []string{"h:6379"}, TLS: true},
		"VALKEYS://h:1/":                     {Addresses: []string{"h:1"}, TLS: true},
		"redis://sandbox:pw@h":               {Addresses: []string{"h:6379"}, Username: "sandbox", Password: "pw"},
		"redis://:pw@h":                      {Addresses: []string{"h:6379"}, Password: "pw"},
		"redis://u:p/s@h/2":                  {Addresses: []string{"h:6379"}, Username: "u", Password: "p/s", DB: 2},
		"redis://u:p#s@h":                    {Addresses: []string{"h:6379"}, Username: "u", Password: "p#s"},
		"redis://u:p?s@h":                    {Addresses: []string{"h:6379"}, Username: "u", Password: "p?s"},
		"redis://u:p+s@h":                    {Addresses: []string{"h:6379"}, Username: "u", Password: "p+s"},
		"redis://u:p@s@h":                    {Addresses: []string{"h:6379"}, Username: "u", Password: "p@s"},
		"redis://u:a b[x]:c@h":               {Addresses: []string{"h:6379"}, Username: "u", Password: "a b[x]:c"},
		"redis://u:p%41@h":                   {Addresses: []string{"h:6379"}, Username: "u", Password: "pA"},
		"redis://u:p%2541@h":                 {Addresses: []string{"h:6379"}, Username: "u", Password: "p%41"},
		"redis://u:%C3%A9@h":                 {Addresses: []string{"h:6379"}, Username: "u", Password: "é"},
		"redis://[::1]:7":                    {Addresses: []string{"[::1]:7"}},
		"redis://[::1]":                      {Addresses: []string{"[::1]:6379"}},
		"redis://::1":                        {Addresses: []string{"[::1]:6379"}},
		"redis://a:1,b:2,c":                  {Addresses: []string{"a:1", "b:2", "c:6379"}},
		"unix:///run/valkey.sock":            {Addresses: []string{"/run/valkey.sock"}},
		"unix://u:p/s@/run/valkey.sock?db=4": {Addresses: []string{"/run/valkey.sock"}, Username: "u", Password: "p/s", DB: 4},
		" redis://h\n":                       {Addresses: []string{"h:6379"}},
	} {
		got, err := ParseURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %q %q, %v", text, got.Addresses, got.Username, got.Password, err)
		}
	}
}

// What can't be read is refused without showing the password.
func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "h:6379", "http://u:secret@h", "redis://", "redis://u:secret@", "redis://u:secret%zz@h", "redis://u:secret%4@h",
		"redis://u:secret@h:port", "redis://u:secret@h:0", "redis://u:secret@h:70000", "redis://u:secret@h/x", "redis://u:secret@h?x=1",
		"redis://u:secret@h i", "redis://u:secret@x:y:z", "unix://u:secret@run/s", "redis://u:secret@a,,b", "secret",
	} {
		s, err := ParseURL(text)
		if err == nil {
			t.Errorf("%q was read as %+v", text, s)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", text, err)
		}
	}
}

// Every password survives a URL, when it is escaped as it should be.
func FuzzParseURL(f *testing.F) {
	for _, p := range []string{"p@s", "p/s", "p#s", "p%41", "", "a:b", "é", "\x00"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		s, err := ParseURL("redis://u:" + url.PathEscape(p) + "@h")
		if err != nil || s.Password != p {
			t.Errorf("%q became %q, %v", p, s.Password, err)
		}
		_, _ = ParseURL(p)
		_, _ = ParseURL("redis://" + p)
	})
}

func TestSettingsHideThePassword(t *testing.T) {
	t.Parallel()
	s := Settings{Addresses: []string{"h:1"}, Username: "u", Password: "secret"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, s); strings.Contains(out, "secret") {
			t.Errorf("%s: %s", format, out)
		}
	}
}

func TestPassing(t *testing.T) {
	t.Parallel()
	if !Passing(errors.New("connection reset")) || Passing(nil) {
		t.Error("an error of the connection passes, none doesn't")
	}
}
