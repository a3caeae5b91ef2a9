package workspace

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
)

// patchOf takes the patch, and checks that it leads from the host's tree to the
// job's and back again.
func patchOf(t *testing.T, j *jobRun) string {
	t.Helper()
	var patch bytes.Buffer
	skipped, err := j.diff().Patch(context.Background(), &patch, j.base())
	must(t, err)
	if len(skipped) > 0 {
		t.Fatalf("skipped %v", skipped)
	}
	copied := j.spool + "/copy"
	must(t, exec.Command("cp", "-a", j.host, copied).Run())
	before, after := tree(t, j.host, false), tree(t, j.view, false)
	for _, step := range []struct {
		args []string
		want map[string]string
	}{{nil, after}, {[]string{"-R"}, before}} {
		cmd := exec.Command("git", append([]string{"apply", "--whitespace=nowarn", "--allow-empty"}, step.args...)...)
		cmd.Dir = copied
		cmd.Stdin = bytes.NewReader(patch.Bytes())
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+j.spool, "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git apply %v: %s\n%s", step.args, out, patch.String())
		}
		if d := cmp.Diff(step.want, tree(t, copied, false)); d != "" {
			t.Fatalf("git apply %v: %s\n%s", step.args, d, patch.String())
		}
	}
	return patch.String()
}

func TestPatchOfEachKind(t *testing.T) {
	t.Parallel()
	j := newJob(t, `
		seq 100 >many; printf 'a\r\nb\r\n' >crlf; printf 'no newline' >nonl; printf 'x\n' >nl; printf 'a\0b' >bin
		: >empty; echo e >exec; echo e >both; ln -s many link; echo f >to-link; ln -s many to-file; echo d >to-dir
		mkdir -p dir "sp ace"; echo x >dir/x; echo s >"sp ace/f f"; echo gone >gone; printf '\0gone' >gone-bin; : >gone-empty
		printf 'ü\n\377\n' >latin; seq 300000 >big; echo -- >dashes; echo x >".q uote\"\\"`)
	j.do(`
		sed -i 's/^50$/fifty/; 3d; $a end' many; printf 'a\r\nB\r\nc' >crlf; printf 'no newline\n' >nonl; printf x >nl; printf 'a\0c' >bin
		echo 1 >empty; chmod +x exec; chmod +x both; echo 2 >>both; ln -sfn nl link; ln -sfn nl to-link; rm to-file; echo f >to-file
		rm to-dir; mkdir to-dir; echo y >to-dir/y; rm -r dir; ln -s elsewhere dir; echo t >>"sp ace/f f"; rm gone gone-bin gone-empty
		printf 'ü\n\376\n' >latin; sed -i 1d big; echo '-- a' >dashes; echo y >".q uote\"\\"; : >new-empty; printf '\0' >new-bin
		printf 'x' >"$(printf 't\tab\nline\303\274\377')"; mkdir "a b"; echo x >"a b/ "; : >"a b/b b"; mkdir d; echo x >d/run; chmod 755 d/run`)
	patch := patchOf(t, j)
	for _, want := range []string{
		"diff --git a/exec b/exec\nold mode 100644\nnew mode 100755\ndiff --git",
		"--- \"a/sp ace/f f\"\n+++ \"b/sp ace/f f\"\n@@ -1 +1,2 @@\n s\n+t\n",
		`+++ "b/t\tab\nline\303\274\377"`, "GIT binary patch\nliteral 3\n", "new file mode 120000", "deleted file mode 100644",
	} {
		if !strings.Contains(patch, want) {
			t.Errorf("no %q in the patch", want)
		}
	}
}

// Any edits of any tree make a patch that git apply takes, in both directions.
func TestPatchOfRandomEdits(t *testing.T) {
	t.Parallel()
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			j := newJob(t, "")
			for range 30 {
				edit(r, j.host)
			}
			// git doesn't know empty directories, nor removes them for a file.
			sh(t, j.host, "find . -mindepth 1 -type d -empty -delete")
			j.restart()
			for range 1 + r.IntN(30) {
				edit(r, j.view)
			}
			patchOf(t, j)
		})
	}
}

func TestPatchWhenTheWorkspaceChanged(t *testing.T) {
	t.Parallel()
	for name, onHost := range map[string]string{
		"edited": "echo other >f", "same size": "printf 'HOST\n' >f", "back in time": "printf 'HOST\n' >f; touch -d 2001-01-01 f",
		"gone": "rm f", "a link": "ln -sf g f", "touched": "touch f", "made too": "echo x >new", "parent is a link": "mv d e; ln -s e d",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "echo host >f; echo g >g; mkdir d; echo x >d/x")
			j.do("echo job >f; echo job >new; echo job >d/x")
			d := j.diff()
			sh(t, j.host, onHost)
			var patch bytes.Buffer
			_, err := d.Patch(context.Background(), &patch, j.base())
			if err == nil || fault.Hint(err) == "" || patch.Len() > 0 {
				t.Errorf("got %v and a patch of %d bytes", err, patch.Len())
			}
		})
	}
}

func TestPatchLeavesGitsOwnDataOut(t *testing.T) {
	t.Parallel()
	j := newJob(t, "mkdir sub keep; echo x >keep/f")
	j.do(`mkdir -p sub/.git a/.GIT 'b/git~1' keep; echo evil >sub/.git/config; echo evil >a/.GIT/config; echo evil >'b/git~1/config'
		ln -s x .gitmodules; echo y >keep/f; echo ok >ok`)
	var patch bytes.Buffer
	b := j.base()
	b.Protect = []string{"keep"}
	skipped, err := j.diff().Patch(context.Background(), &patch, b)
	must(t, err)
	if len(skipped) != 5 || strings.Count(patch.String(), "diff --git") != 1 {
		t.Errorf("skipped %v\n%s", skipped, patch.String())
	}
}

// Git takes paths from the repository's top, wherever it is run.
func TestPatchOfADirectoryInARepository(t *testing.T) {
	t.Parallel()
	j := newJob(t, "mkdir sub; echo a >sub/f; printf '\\0' >sub/b; git init -q ..")
	j.do("echo b >sub/f; printf '\\0\\1' >sub/b")
	var patch bytes.Buffer
	_, err := j.diff().Patch(context.Background(), &patch, j.base())
	must(t, err)
	for _, dir := range []string{j.host, filepath.Dir(j.host)} {
		cmd := exec.Command("git", "apply")
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch.Bytes())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%s", out, patch.String())
		}
		if d := cmp.Diff(tree(t, j.view, false), tree(t, j.host, false)); d != "" {
			t.Error(dir, d)
		}
		sh(t, j.host, "echo a >sub/f; printf '\\0' >sub/b")
	}
}

func TestPatchFile(t *testing.T) {
	t.Parallel()
	j := newJob(t, "echo a >f")
	j.do("echo b >f")
	path := j.spool + "/out.patch"
	_, err := j.diff().PatchFile(context.Background(), path, j.base())
	must(t, err)
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), "-a\n+b\n") {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := j.diff().PatchFile(context.Background(), "/dev/null", j.base()); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat("/dev/null"); err != nil || fi.Mode().IsRegular() {
		t.Fatal("/dev/null was replaced")
	}
}

// edit changes a tree at random, with content that is hard on a patch.
func edit(r *rand.Rand, dir string) {
	name := func() string {
		parts := []string{dir}
		for range 1 + r.IntN(3) {
			parts = append(parts, []string{"a", "b", "a b", "a-", "ü", "x\xff\"\n", " "}[r.IntN(7)])
		}
		return strings.Join(parts, "/")
	}
	p := name()
	switch r.IntN(10) {
	case 0, 1, 2:
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(content(r)), 0o644)
	case 3, 4:
		if old, err := os.ReadFile(p); err == nil {
			lines := strings.SplitAfter(string(old), "\n")
			for range 1 + r.IntN(3) {
				lines[r.IntN(len(lines))] = content(r)
			}
			os.WriteFile(p, []byte(strings.Join(lines, "")), 0o644)
		}
	case 5:
		os.Chmod(p, []os.FileMode{0o644, 0o755}[r.IntN(2)])
	case 6:
		os.RemoveAll(p)
	case 7:
		os.RemoveAll(p)
		os.Symlink(content(r)+"x", p)
	case 8:
		exec.Command("mv", "-T", p, name()).Run()
	case 9:
		os.MkdirAll(p, 0o755)
	}
}

// content is a few lines that repeat, or bytes.
func content(r *rand.Rand) string {
	if r.IntN(8) == 0 {
		return string([]byte{byte(r.IntN(256)), 0, byte(r.IntN(256))})
	}
	var b strings.Builder
	for range r.IntN(20) {
		b.WriteString([]string{"a\n", "b\n", "\n", "-- x\n", "c\r\n", "\\ No newline at end of file\n", "\xfe\n", "@@ -1 +1 @@\n"}[r.IntN(8)])
	}
	if r.IntN(2) == 0 {
		b.WriteString("end")
	}
	return b.String()
}
