package runner

import (
	"cmp"
	"context"
	"fmt"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/secret"
)

// Door lets steps with a network out. The runner knows no proxy: a connection of
// the job's comes over the agent's channel and is handed on.
type Door interface {
	// Check refuses a list of rules that it can't keep to, or that allows nothing.
	Check(allow []string) error
	// Open lets one step of a job out, until the passage is closed.
	Open(ctx context.Context, o Opening) (Passage, error)
}

// Opening is what a door is opened for.
type Opening struct {
	// Job and Step name the step.
	Job  string
	Step int
	// Allow is what it may reach.
	Allow []string
	// Secrets are those of a job that has some. The passage is a Trusted then.
	Secrets secret.Set
	// Moved is how many bytes the job's steps before have moved, both ways together.
	Moved int64
}

// Passage is the way out of one step.
type Passage interface {
	// Carry takes a connection to its end.
	Carry(conn *agent.Conn)
	// Close ends it, with every connection there is, and tells what happened.
	Close() job.Egress
}

// SecretDoor is a door that puts secrets into requests of steps that don't see them.
type SecretDoor interface {
	Door
	// CheckSecrets refuses bindings that it can't keep to.
	CheckSecrets(secrets []job.Secret, allow []string) error
}

// Trusted is a passage for whose hosts an authority of its own vouches.
type Trusted interface {
	Passage
	// Authority is its certificate, PEM.
	Authority() []byte
}

// hasNetwork says whether a step has a network.
func hasNetwork(st job.Step) bool { return st.Network == job.NetworkRegistries }

// checkDoor refuses a job that needs a door when there is none for it.
func (j *run) checkDoor() error {
	if !hasNetwork(j.spec.Steps[0]) {
		return nil
	}
	if j.runner.Door == nil {
		return fault.New("there is no way out for steps with a network", "name the hosts that they may reach: quavon run --net HOST").
			WithCode(string(job.ReasonPolicyUnsupported))
	}
	err := j.runner.Door.Check(j.spec.Allow)
	if err == nil {
		return j.checkSecrets()
	}
	return &fault.Error{
		What: "the job's list of hosts", Err: err, Hint: fault.Hint(err),
		Code: cmp.Or(fault.Code(err), string(job.ReasonRejected)),
	}
}

// outside runs a step with the door open if it has a network. When it ends, so does
// everything that could still hold a connection.
func (j *run) outside(ctx context.Context, i int, step func() (bool, error)) (goOn bool, err error) {
	if !hasNetwork(j.spec.Steps[i]) {
		return step()
	}
	passage, err := j.runner.Door.Open(ctx, j.opening(i))
	if err != nil {
		return false, fault.Wrap(err, "can't open the door for a step with a network", fault.Hint(err)).
			WithCode(cmp.Or(fault.Code(err), string(job.ReasonSandboxUnavailable)))
	}
	defer func() {
		if j.result.Egress == nil {
			j.result.Egress = &job.Egress{}
		}
		j.result.Egress.Add(passage.Close())
		j.forgetSecrets(i)
	}()
	if err := j.trust(ctx, passage); err != nil {
		return false, j.interrupted(ctx, err)
	}
	if err := j.client.OpenDoor(ctx, passage.Carry); err != nil {
		return false, j.interrupted(ctx, err)
	}
	goOn, err = step()
	passage.Close()
	if closeErr := j.closeDoor(ctx); err == nil && closeErr != nil {
		return false, j.interrupted(ctx, closeErr)
	}
	return goOn, err
}

// closeDoor ends the listening and what the step has left running. An agent that is
// lost, or a job that was given up, has no door any more.
func (j *run) closeDoor(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the step tells why it was given up
	}
	if err := j.client.CloseDoor(ctx); err != nil {
		return err
	}
	return j.killAll(ctx)
}

// doorEnv tells the usual tools where the door is. Most read the variables in small
// letters, some only the large ones; Node asks for a switch besides.
func doorEnv(st job.Step) []string {
	if !hasNetwork(st) {
		return nil
	}
	const proxy, local = "http://" + sandbox.Door, "localhost,127.0.0.1,::1"
	env := []string{
		"NODE_USE_ENV_PROXY=1",
		// npm asks again even when it was refused, by default after 10 and 60 seconds.
		"npm_config_fetch_retry_mintimeout=1000", "npm_config_fetch_retry_maxtimeout=4000",
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env = append(env, fmt.Sprintf("%s=%s", name, proxy))
	}
	return append(env, "NO_PROXY="+local, "no_proxy="+local)
}

// offlineEnv tells package managers not to ask again in a step that has no network:
// left to themselves they wait for one, some of them minutes. The image's own
// environment and the job's count more.
func offlineEnv(st job.Step) []string {
	if hasNetwork(st) {
		return nil
	}
	return []string{
		"npm_config_fetch_retries=0", // pnpm's too
		"YARN_HTTP_RETRY=0", "PIP_RETRIES=0", "UV_HTTP_RETRIES=0", "CARGO_NET_RETRY=0",
	}
}
