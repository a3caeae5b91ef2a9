// Package compat shows that a sandbox runs what people have: the tests of public
// projects run outside and inside one, and every single test must end alike.
//
//	make compat                      all of them, and docs/compatibility.md
//	go test -tags compat -run 'Projects/pino' -v ./test/compat
package compat

// ecosystem decides how a project is fetched and how its tests report.
type ecosystem string

const (
	golang ecosystem = "Go"
	npm    ecosystem = "npm"
	python ecosystem = "Python"
)

// project is a public package whose published archive carries its tests.
type project struct {
	Name    string // also the subtest's name
	Kind    ecosystem
	Package string // what the ecosystem's client calls it
	Version string
	// Sum is the archive's checksum as the client knows it: Go's "h1:…", PyPI's
	// sha256. npm's are in the project's package-lock.json.
	Sum string
	// Uses says what of a system the tests lean on.
	Uses string
	// Run is a shell script that starts the tests in the workspace's root.
	Run string
	// Without says which tests are left out and why; "" is none.
	Without string
	// Known names tests that are known to end otherwise in gVisor, and why. One
	// that ends alike after all fails too, so that the list stays true.
	Known map[string]string
}

var projects = []project{
	{
		Name: "dns", Kind: golang, Package: "github.com/miekg/dns", Version: "v1.1.73",
		Sum:  "h1:uhT8nJxmTrPJYClxVxTCX+CVn6qnzSiybRk72Z6DgrE=",
		Uses: "loopback UDP, TCP and TLS servers, goroutines",
		Run:  `go test -json ./...`,
	},
	{
		Name: "sh", Kind: golang, Package: "mvdan.cc/sh/v3", Version: "v3.14.1",
		Sum:  "h1:bXkhQWNHCs0KZEChF8hYS6FC+T2N9mUZLbQv9blditI=",
		Uses: "a shell: subprocesses, pipes, signals, terminals, bash beside it",
		Run:  `go test -json ./...`,
	},
	{
		Name: "fastify", Kind: npm, Package: "fastify", Version: "5.12.8",
		Uses:    "loopback HTTP, HTTP/2 and TLS servers, a process for each test file",
		Run:     `cd pkg && ` + nodeTest + ` $(find test -name '*.test.js' -o -name '*.test.mjs' | grep -v /build/ | sort)`,
		Without: "test/build, which compares with files the package leaves out",
	},
	{
		Name: "pino", Kind: npm, Package: "pino", Version: "10.4.0",
		Uses: "worker threads, subprocesses, broken pipes, files",
		Run: `cd pkg && ` + nodeTest + ` $(find test -name '*.test.js' | grep -Ev 'browser|/jest/|/types/' |
			grep -Ev 'bundlers-support|module-link' | sort)`,
		Without: "browser and type tests, which need other runners; two files that need a bundler or a link into node_modules",
	},
	{
		Name: "tornado", Kind: python, Package: "tornado", Version: "6.6.1",
		Sum:  "28e6311402af59c8b02e3fa0f5e7d8eb465b25081381803b127d97e6a4395d5a",
		Uses: "loopback servers and clients on epoll, subprocesses, threads, signals",
		// The project's own runner mutes this log, which its tests rely on.
		Run: `cd pkg && PYTHONPATH=.:../.compat ../.venv/bin/python -c '
import logging, sys, pytest
logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
sys.exit(pytest.main(sys.argv[1:]))' ` + pytestArgs + ` -p no:logging tornado/test`,
		Known: map[string]string{
			"tornado/test/tcpclient_test.py::TCPClientTest::test_source_port_fail": "gVisor lets every user have ports below 1024",
		},
	},
	{
		Name: "execnet", Kind: python, Package: "execnet", Version: "2.1.2",
		Sum:  "63d83bfdd9a23e35b9c6a3261412324f964c2ec8dcd8d3c6916ee9373e0befcd",
		Uses: "interpreters as subprocesses, pipes, loopback sockets, threads",
		Run: `python=$PWD/.venv/bin/python && cd pkg && PYTHONPATH=src:../.compat \
			"$python" -m pytest ` + pytestArgs + ` testing`,
	},
	// The rest are here for more of what gVisor does otherwise than Linux.
	{
		Name: "fasthttp", Kind: golang, Package: "github.com/valyala/fasthttp", Version: "v1.78.0",
		Sum:     "h1:tKfLdx7cD8HZOTP1wc2OpbQMbgO1HP12J0y/XMdyW6Q=",
		Uses:    "loopback TCP and Unix sockets, TLS, thousands of goroutines",
		Run:     `go test -json $(go list ./... | grep -v /fasthttpproxy)`,
		Without: "fasthttpproxy, whose tests resolve public names",
		Known: map[string]string{
			"github.com/valyala/fasthttp TestFSRootSymlinks":                  noFollow,
			"github.com/valyala/fasthttp TestFSRootWholeVolumeCompressRoot":   noFollow,
			"github.com/valyala/fasthttp TestFSRootCompressRootInsideRoot":    noFollow,
			"github.com/valyala/fasthttp TestFSRootCompressedFilesStayInRoot": noFollow,
			"github.com/valyala/fasthttp/tcplisten TestConfigAll":             tcpOptions,
			"github.com/valyala/fasthttp/tcplisten TestConfigBacklog":         tcpOptions,
			"github.com/valyala/fasthttp/tcplisten TestConfigDeferAccept":     tcpOptions,
			"github.com/valyala/fasthttp/tcplisten TestConfigFastOpen":        tcpOptions,
			"github.com/valyala/fasthttp/tcplisten TestConfigReusePort":       tcpOptions,
		},
	},
	{
		Name: "trio", Kind: python, Package: "trio", Version: "0.35.0",
		Sum:  "7efb295c78a0ecd1235c5759e620b5da564ca80d2efcb0055423588547248b96",
		Uses: "epoll, threads, subprocesses, signals, pipes, terminals, loopback TLS and DTLS",
		Run: `cd pkg && PYTHONPATH=src:../.compat ../.venv/bin/python -m pytest ` + pytestArgs + ` -p trio._tests.pytest_plugin \
			--run-slow src/trio --ignore=src/trio/_tests/tools --ignore=src/trio/_tests/test_exports.py \
			--deselect src/trio/_tests/test_repl.py::test_ki_newline_injection`,
		Without: "tools and test_exports, which need linters and type checkers; test_ki_newline_injection, " +
			"which Linux skips and which waits for ever where TIOCSTI is missing, as in gVisor",
		Known: map[string]string{
			"src/trio/_tests/test_highlevel_open_tcp_stream.py::test_local_address_real": "gVisor has no IP_BIND_ADDRESS_NO_PORT",
			"src/trio/_tests/test_socket.py::test_send_recv_variants":                    "gVisor has no MSG_MORE on UDP",
		},
	},
}

// Why gVisor ends known tests otherwise.
const (
	noFollow = "gVisor follows a symbolic link when a directory is opened with O_NOFOLLOW, " +
		"so Go's os.Root doesn't confine there"
	tcpOptions = "a server with TCP_DEFER_ACCEPT isn't handed its connections; the port it keeps fails the tests after it"
)

// The reporters of .compat print one line for each test; see parseLines.
const (
	nodeTest   = `node --test --test-timeout=120000 --test-reporter=../.compat/reporter.mjs`
	pytestArgs = `-p compat_lines -p no:cacheprovider -q --tb=short`
)
