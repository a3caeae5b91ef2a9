package runtime

import (
	"strings"
	"testing"
)

// TestMaskedSpellings: the lines around a change of daemon.json are shown, without secrets.
func TestMaskedSpellings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"http-proxy": "http://u:verysecret@proxy.example:80/x@y"`: `"http-proxy": "http://…@proxy.example:80/x@y"`,
		`"http-proxy": "http://u:very@secret@proxy.example"`:       `"http-proxy": "http://…@proxy.example"`,
		`"http-proxy": "http:\/\/u:verysecret@proxy.example"`:      `"http-proxy": "http:\/\/…@proxy.example"`,
		`"log-opts": {"splunk-token": "very\"secret", "tag": "x"}`: `"log-opts": {"splunk-token": "…", "tag": "x"}`,
		`"Password" : "verysecret"`:                                `"Password" : "…"`,
		`"client-secret":"verysecret"`:                             `"client-secret":"…"`,
		`"debug": true, "hosts": ["unix:///var/run/docker.sock"]`:  `"debug": true, "hosts": ["unix:///var/run/docker.sock"]`,
	} {
		if got := masked([]byte(text)); got != want || strings.Contains(got, "secret@") {
			t.Errorf("%s: %s", text, got)
		}
	}
}
