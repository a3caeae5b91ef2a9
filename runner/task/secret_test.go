package task_test

import (
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/task"
)

// The sealed payload is the one form of a task that has the values.
func TestSecretsTravel(t *testing.T) {
	t.Parallel()
	in := task.Task{Spec: job.Spec{
		ID: "j", Root: job.Root{Kind: job.RootHost}, Allow: []string{"ok.example"},
		Steps:   []job.Step{{Argv: []string{"true"}, Network: job.NetworkRegistries}},
		Secrets: []job.Secret{{Name: "TOKEN", URL: "https://ok.example", Header: "Authorization", Value: job.NewValue("a-real-value")}},
	}}
	b, err := in.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := task.Decode(b)
	if err != nil || out.Spec.Secrets[0].Value.Reveal() != "a-real-value" {
		t.Fatalf("%v, %v", out, err)
	}
	without := strings.Replace(string(b), `"TOKEN":"a-real-value"`, `"OTHER":"a-real-value"`, 1)
	if _, err := task.Decode([]byte(without)); err == nil || strings.Contains(err.Error(), "a-real-value") {
		t.Errorf("without its value: %v", err)
	}
}
