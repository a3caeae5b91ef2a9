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
}

var projects = []project{
	{
		Name: "fasthttp", Kind: golang, Package: "github.com/valyala/fasthttp", Version: "v1.78.0",
		Sum:     "h1:tKfLdx7cD8HZOTP1wc2OpbQMbgO1HP12J0y/XMdyW6Q=",
		Uses:    "loopback TCP and Unix sockets, TLS, thousands of goroutines",
		Run:     `go test -json $(go list ./... | grep -v /fasthttpproxy)`,
		Without: "fasthttpproxy, whose tests resolve public names",
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
	},
	{
		Name: "trio", Kind: python, Package: "trio", Version: "0.35.0",
		Sum:  "7efb295c78a0ecd1235c5759e620b5da564ca80d2efcb0055423588547248b96",
		Uses: "epoll, threads, subprocesses, signals, pipes, terminals, loopback TLS and DTLS",
		Run: `cd pkg && PYTHONPATH=src:../.compat ../.venv/bin/python -m pytest ` + pytestArgs + ` -p trio._tests.pytest_plugin \
			--run-slow src/trio --ignore=src/trio/_tests/tools --ignore=src/trio/_tests/test_exports.py`,
		Without: "tools and test_exports, which need linters and type checkers",
	},
}

// The reporters of .compat print one line for each test; see parseLines.
const (
	nodeTest   = `node --test --test-timeout=120000 --test-reporter=../.compat/reporter.mjs`
	pytestArgs = `-p compat_lines -p no:cacheprovider -q --tb=short`
)
