package egress

import (
	"errors"
	"fmt"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress/intercept"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

var _ runner.SecretDoor = Local{}

// CheckSecrets implements runner.SecretDoor.
func (l Local) CheckSecrets(secrets []job.Secret, allow []string) error {
	return checkSecrets(secrets, allow)
}

// checkSecrets wants every secret's host to be one that the job may reach.
func checkSecrets(secrets []job.Secret, allow []string) error {
	p, err := jobPolicy(allow)
	if err != nil {
		return err
	}
	for _, s := range secrets {
		b, err := secret.Bind(s)
		if err != nil {
			return fault.Wrap(err, s.Name, "write https://HOST[:PORT][/PATH], and a header such as Authorization")
		}
		_, why := p.Decide(policy.Request{Scheme: b.Scheme, Name: b.Name, Port: b.Port, Method: "GET", Path: "/"})
		switch why {
		case policy.ReasonHost, policy.ReasonPort, policy.ReasonScheme:
			return fault.Wrap(errors.New("the job may not reach its host"), s.Name,
				fmt.Sprintf("allow the host too: %s://%s:%d", b.Scheme, b.Name, b.Port))
		}
	}
	return nil
}

// authority vouches for the hosts whose TLS is read.
func authority(secrets secret.Set) (*intercept.Authority, error) {
	var hosts []string
	for _, s := range secrets {
		hosts = append(hosts, string(s.Name))
	}
	return intercept.New(hosts)
}

// trusted is a passage with secrets.
type trusted struct {
	passage
	pem []byte
}

// Authority implements runner.Trusted.
func (t trusted) Authority() []byte { return t.pem }
