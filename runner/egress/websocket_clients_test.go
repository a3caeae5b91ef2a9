//go:build compat

package egress_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/job"
)

// talk is what each client does: it prints whom the host takes it for, has a message
// echoed, and says the placeholder, which ends the connection.
var talk = map[string]struct {
	fetch []string // into the directory it is run in
	run   string
}{
	"websockets": {
		[]string{"python3", "-m", "pip", "install", "-q", "--no-compile", "--target", ".", "websockets==17.4"},
		`PYTHONPATH=/clients python3 - <<'P'
import os
from websockets.sync.client import connect
from websockets.exceptions import ConnectionClosed
def dial(path):
    return connect("wss://ok.example/v1/ws/" + path, additional_headers={"Authorization": "Bearer " + os.environ["TOKEN"]}, max_size=None)
with dial("text") as c:
    print("told", c.recv())
with dial("echo") as c:
    for text in "hello", "x" * 300000:
        c.send(text)
        print(c.recv()[:11], len(text))
    c.send("t=" + os.environ["TOKEN"])
    try:
        print("got", c.recv())
    except ConnectionClosed as e:
        print("closed", e.rcvd.code, e.rcvd.reason[:35])
P`,
	},
	"ws": {
		[]string{"npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "ws@8.23.0", "https-proxy-agent@7.0.6"},
		`cp -r /clients /tmp/c; cat >/tmp/c/x.js <<'J'
const WebSocket = require('ws'), {HttpsProxyAgent} = require('https-proxy-agent')
module.exports = path => new WebSocket('wss://ok.example/v1/ws/' + path,
  {agent: new HttpsProxyAgent(process.env.HTTPS_PROXY), headers: {Authorization: 'Bearer ' + process.env.TOKEN}})
J
` + inNode,
	},
	"undici": {
		[]string{"npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "undici@6.21.3"},
		`cp -r /clients /tmp/c; cat >/tmp/c/x.js <<'J'
const {WebSocket, EnvHttpProxyAgent} = require('undici')
module.exports = path => new WebSocket('wss://ok.example/v1/ws/' + path,
  {dispatcher: new EnvHttpProxyAgent(), headers: {Authorization: 'Bearer ' + process.env.TOKEN}})
J
` + inNode,
	},
}

// inNode is the same talk with what every WebSocket of JavaScript has.
const inNode = `cat >/tmp/c/talk.js <<'J'
const dial = require('./x.js')
const one = dial('text')
one.onmessage = m => { console.log('told', m.data); one.close() }
one.onclose = () => {
  const c = dial('echo'), texts = ['hello', 'x'.repeat(300000), 't=' + process.env.TOKEN]
  let n = 0
  c.onopen = () => c.send(texts[0])
  c.onmessage = m => { console.log(m.data.slice(0, 11), texts[n].length); c.send(texts[++n]) }
  c.onclose = e => console.log('closed', e.code, e.reason.slice(0, 35))
}
J
NODE_NO_WARNINGS=1 node /tmp/c/talk.js`

// TestWebSocketClients: what others have written speaks through a real sandbox's door with
// the host of a secret.
func TestWebSocketClients(t *testing.T) {
	t.Parallel()
	for name, c := range talk {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := t.TempDir()
			if err := os.Chmod(clients, 0o755); err != nil {
				t.Fatal(err)
			}
			output(t, clients, c.fetch...)
			w := newWorld(t)
			v := newVault(t, w)
			s := withSecret(t.TempDir(), c.run)
			s.Mounts = append(s.Mounts, job.Mount{Source: clients, Target: "/clients", Mode: job.MountReadOnly})
			var logged bytes.Buffer
			res, out := runWith(t, w, v, s, &logged)
			want := fmt.Sprintf("told Bearer %s\nheard hello 5\nheard xxxxx 300000\nclosed 1008 refused by quavon: secret_misplaced\n", strings.Repeat("*", len(realValue)))
			if out != want {
				t.Errorf("it printed %q, want %q", out, want)
			}
			seen := strings.Join(v.take(), "\n")
			for over := time.Now().Add(time.Minute); strings.Count(seen, "GET /v1/ws/") < 2 && time.Now().Before(over); time.Sleep(time.Millisecond) {
				seen += strings.Join(v.take(), "\n") // the host notes what it has heard when its connection ends
			}
			if strings.Count(seen, " Bearer "+realValue+" ") != 2 || wholePlaceholder.MatchString(seen) || strings.Contains(seen, "deflate") {
				t.Errorf("the host saw %s", seen[:min(len(seen), 2000)])
			}
			checkCounts(t, res, map[string]int64{"secret_misplaced": 1})
		})
	}
}
