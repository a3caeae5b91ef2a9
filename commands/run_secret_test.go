package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

func TestSecretFlag(t *testing.T) {
	t.Parallel()
	const value = "s3cret-value"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const bound = "id=TOKEN,url=https://api.example/v1,header=Authorization"
	for _, from := range []string{"env=MINE", "src=" + file} {
		s := specFor(t, everything, map[string]string{"MINE": value}, "-w", "none", "--net", "api.example", "--secret", bound+","+from, "true")
		if len(s.Secrets) != 1 || s.Secrets[0].Name != "TOKEN" || s.Secrets[0].Value.Reveal() != value {
			t.Errorf("%s: %v", from, s.Secrets)
		}
	}
	o := &runOptions{program: &program{LookupEnv: func(string) (string, bool) { return "", false }}}
	for _, bad := range []string{
		value, bound, bound + ",value=" + value, bound + "," + value, bound + ",env=" + value, bound + ",src=/nowhere/" + value,
		bound + ",env=A,src=B", bound + ",env=A,env=" + value, "url=https://api.example,header=A,env=" + value,
	} {
		o.Secrets = []string{bad}
		_, err := o.secrets()
		if err == nil || fault.Hint(err) == "" || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	o.Secrets, o.Argv = []string{bound + ",env=A"}, []string{"true"}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "without --net") {
		t.Errorf("without --net: %v", err)
	}
}
