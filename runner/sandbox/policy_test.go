package sandbox_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// matrix is a backend that does nothing but have policies.
type matrix struct {
	sandbox.Backend
	have sandbox.Policies
}

func (m matrix) Name() string               { return "matrix" }
func (m matrix) Policies() sandbox.Policies { return m.have }

func TestRequire(t *testing.T) {
	all := job.Spec{
		Root:   job.Root{Kind: job.RootImage},
		Mounts: []job.Mount{{Source: "/a"}},
		Limits: job.Limits{Memory: 1, CPUs: 1, Pids: 1, Disk: 1, Output: 1, Wall: 1},
		Steps:  []job.Step{{}, {TTY: true, Network: job.NetworkRegistries}},
	}
	for _, tt := range []struct {
		name string
		spec job.Spec
		want []sandbox.Policy
	}{
		{"nothing", job.Spec{Steps: []job.Step{{Network: job.NetworkNone}}}, nil},
		{"host", job.Spec{Root: job.Root{Kind: job.RootHost}}, []sandbox.Policy{sandbox.PolicyRootHost}},
		{"all", all, []sandbox.Policy{
			sandbox.PolicyMemory, sandbox.PolicyCPU, sandbox.PolicyPids, sandbox.PolicyDisk,
			sandbox.PolicyRootImage, sandbox.PolicyMounts, sandbox.PolicyTTY, sandbox.PolicyRegistries,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sandbox.Require(tt.spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What isn't listed isn't enforced, and every policy at fault is named with its
// reason.
func TestAdmit(t *testing.T) {
	b := matrix{have: sandbox.Policies{sandbox.PolicyMemory: sandbox.Enforced, sandbox.PolicyDisk: "no disk here"}}
	if err := sandbox.Admit(b, job.Spec{Limits: job.Limits{Memory: 1}}); err != nil {
		t.Errorf("an enforced policy is refused: %v", err)
	}
	err := sandbox.Admit(b, job.Spec{Limits: job.Limits{Memory: 1, Disk: 1, Pids: 1}})
	if fault.Code(err) != string(job.ReasonPolicyUnsupported) || fault.Hint(err) == "" {
		t.Fatalf("error %v has the code %q and the hint %q", err, fault.Code(err), fault.Hint(err))
	}
	for _, part := range []string{"matrix", "limit_pids", "limit_disk (no disk here)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "limit_memory") {
		t.Errorf("%q names an enforced policy", err)
	}
}
