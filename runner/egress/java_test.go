//go:build compat

package egress_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/need"
)

const javaScript = `cat >/tmp/T.java <<'J'
public class T {
	public static void main(String[] a) throws Exception {
		var c = new java.net.URL("https://ok.example/v1/java").openConnection();
		c.setRequestProperty("Authorization", "Bearer " + System.getenv("TOKEN"));
		System.out.print(new String(c.getInputStream().readAllBytes()));
	}
}
J
keytool -importcert -noprompt -alias quavon -file $NODE_EXTRA_CA_CERTS -keystore /tmp/trust.p12 -storepass changeit 2>/dev/null
java -Djavax.net.ssl.trustStore=/tmp/trust.p12 -Djavax.net.ssl.trustStorePassword=changeit -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 /tmp/T.java
java -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 /tmp/T.java 2>&1 | grep -o -m1 SSLHandshakeException`

// TestJava: with a trust store made in the step, Java uses a secret; without, it trusts
// nothing.
func TestJava(t *testing.T) {
	t.Parallel()
	java, err := exec.LookPath("javac")
	if err == nil {
		java, err = filepath.EvalSymlinks(java)
	}
	if err != nil {
		need.Skip(t, "no JDK: %v", err)
	}
	jdk := t.TempDir()                                                                                                       // Debian's has links into /etc, of which a sandbox has little
	output(t, filepath.Dir(filepath.Dir(java)), "sh", "-c", `cp -rL bin conf lib "$0" 2>/dev/null; chmod -R a+rX "$0"`, jdk) // some links lead nowhere
	w := newWorld(t)
	v := newVault(t, w)
	s := withSecret(t.TempDir(), "export PATH=/jdk/bin:$PATH\n"+javaScript)
	s.Mounts = append(s.Mounts, job.Mount{Source: jdk, Target: "/jdk", Mode: job.MountReadOnly})
	var logged bytes.Buffer
	_, out := runWith(t, w, v, s, &logged)
	if want := "you reached /v1/java with \"Bearer " + strings.Repeat("*", len(realValue)) + "\"\nSSLHandshakeException\n"; out != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
	if seen := v.take(); len(seen) != 1 || !strings.Contains(seen[0], "Bearer "+realValue+" ") {
		t.Errorf("the host saw %q", seen)
	}
}
