package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cases are the reported failures of daemon.json, of ways to Docker and of gVisor, with
// what the installer does and the tests of that, PATH:FUNCTION from the module's root,
// without a path for this package's. Where nothing is said the installer has no part in
// it: docs/doctor-cases.md names the test.
var cases = []struct{ id, answer, tests string }{
	{"DJ-01", "hosts is never added; a file with hosts for a dockerd with -H is refused", "TestEdit"},
	{"DJ-02", "so is every other key that is a flag too; a runtime by flag is used as it is", "TestEdit, TestByFlag, installer/daemonjson/daemonjson_test.go:TestTwice"},
	{"DJ-04", "UTF-8 and UTF-16 with a mark are read and written as plain UTF-8, which is said", "TestEdit, installer/daemonjson/daemonjson_test.go:TestCases"},
	{"DJ-05", "refused with line and column", "TestEdit"},
	{"DJ-07", "what dockerd --validate says is in the error, nothing is retyped", "TestReloadRefused"},
	{"DJ-08", "refused with its line", "TestEdit"},
	{"DJ-09", "one key path changes", "installer/daemonjson/daemonjson_test.go:TestRandomFiles, TestRegistered"},
	{"DJ-10", "null becomes an object, a list is refused; mode, owner, numbers and order stay", "TestEdit, TestRegistered"},
	{"DJ-11", "refused, as dockerd does not start with it; ours can't be called so", "TestEdit, installer/daemonjson/daemonjson_test.go:TestEntryRefused"},
	{"DJ-12", "default-runtime is never changed; an undefined one is refused; ours isn't removed while it is the default", "TestEdit, installer/daemonjson/daemonjson_test.go:TestRevertRefuses"},
	{"DJ-13", "what is written is parsed and validated; a dockerd that ends is started again with the old file", "TestReloadRefused, TestDiesDuringReload, TestManaged"},
	{"DJ-14", "only an entry that is as it was written is removed, and a file only when it was made", "installer/daemonjson/daemonjson_test.go:TestRevert, TestRegistered"},
	{"DJ-16", "paths and arguments that a shell changes are refused", "TestEdit, installer/daemonjson/daemonjson_test.go:TestEntryRefused"},
	{"DJ-17", "a data-root mounted noexec is refused, but for an entry without arguments", "TestOtherEngines"},
	{"DJ-18", "added by a reload and looked for in /info; a restart needs consent", "TestRegistered, TestManaged"},
	{"DJ-20", "refused, and no daemon.json is made", "TestOtherEngines"},
	{"DJ-21", "the seven files are refused before the reload", "TestEdit, installer/daemonjson/daemonjson_test.go:TestCases"},
	{"DK-01", "the engine is asked without a version", "TestOtherEngines"},
	{"DK-02", "Docker Desktop is refused", "TestOtherEngines, runner/sandbox/docker/endpoint_test.go:TestFind"},
	{"DK-03", "the one that the docker command would use", "runner/sandbox/docker/endpoint_test.go:TestFind"},
	{"DK-04", "what is no socket of this host is refused", "runner/sandbox/docker/endpoint_test.go:TestFind"},
	{"DK-05", "refused: its runtimes are in containers.conf, no daemon.json is made", "TestOtherEngines"},
	{"DK-06", "refused", "TestOtherEngines"},
	{"DK-09", "an engine in a machine isn't taken for the dockerd of this host", "TestOtherEngines, TestBehind"},
	{"DK-10", "", ""},
	{"DK-11", "", ""},
	{"GV-01", "one archive of a release by its date, with its sha512; never latest", "TestReleases"},
	{"GV-03", "runsc and gvisor-bin/ stay together, a version is put in place by a rename", "TestReleases, TestCheckProgram, TestArchives, TestKilled"},
	{"GV-04", "", ""},
	{"GV-05", "", ""},
	{"GV-06", "files are 0755, and every directory on the way is looked at", "TestWay"},
	{"GV-07", "", ""},
	{"GV-09", "a registered runsc with flags that weaken it is not used", "TestOtherEngines, TestEdit"},
	{"GV-10", "", ""},
	{"GV-11", "", ""},
	{"GV-12", "", ""},
	{"GV-13", "", ""},
	{"GV-14", "", ""},
	{"GV-15", "", ""},
	{"GV-16", "", ""},
	{"GV-17", "refused before it is registered", "TestCheckProgram"},
	{"GV-18", "", ""},
	{"GV-19", "", ""},
	{"GV-20", "", ""},
}

// reported are the cases that were handed in.
var reported = map[string]string{
	"DJ": "01 02 04 05 07 08 09 10 11 12 13 14 16 17 18 20 21", "DK": "01 02 03 04 05 06 09 10 11",
	"GV": "01 03 04 05 06 07 09 10 11 12 13 14 15 16 17 18 19 20",
}

// TestCasesAreListed: each case is in the table, each test of the table in the tree, and
// whatever the installer has no part in is on the doctor's page.
func TestCasesAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/doctor-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		group, number, _ := strings.Cut(c.id, "-")
		if seen[c.id] || !slices.Contains(strings.Fields(reported[group]), number) {
			t.Errorf("%s is there twice, or was never reported", c.id)
		}
		seen[c.id] = true
		if c.answer == "" && !strings.Contains(string(page), "| "+c.id+" |") {
			t.Errorf("%s is tested nowhere", c.id)
		}
		for where := range strings.SplitSeq(c.tests, ", ") {
			if (c.answer == "") != (where == "") || where != "" && !isTest(t, where) {
				t.Errorf("%s: there is no test %q", c.id, where)
			}
		}
	}
	for group, numbers := range reported {
		for number := range strings.FieldsSeq(numbers) {
			if !seen[group+"-"+number] {
				t.Errorf("%s-%s isn't listed", group, number)
			}
		}
	}
}

// isTest says whether a file, or this package, has a function.
func isTest(t *testing.T, where string) bool {
	t.Helper()
	path, function, elsewhere := strings.Cut(where, ":")
	pattern := filepath.Join("../..", path)
	if !elsewhere {
		pattern, function = "*_test.go", where
	}
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(function) + `\(`)
	return slices.ContainsFunc(all, func(path string) bool {
		data, err := os.ReadFile(path)
		return err == nil && form.Match(data)
	})
}
