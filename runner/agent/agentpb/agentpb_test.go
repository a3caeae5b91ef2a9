package agentpb_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGenerated fails when agent.pb.go isn't what the pinned generator makes of
// agent.proto: run go generate.
func TestGenerated(t *testing.T) {
	t.Parallel()
	source, err := filepath.Abs("agent.proto")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "-C", "../../../tools", "run", "./protogen", "-out", dir, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "agent.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("agent.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("agent.pb.go is not what agent.proto generates: run go generate ./runner/agent/agentpb")
	}
}
