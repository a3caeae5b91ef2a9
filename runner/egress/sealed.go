package egress

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress/intercept"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

var _ runner.SecretDoor = Remote{}

// CheckSecrets implements runner.SecretDoor.
func (r Remote) CheckSecrets(secrets []job.Secret, allow []string) error {
	return checkSecrets(secrets, allow)
}

// sealedSecret is a secret on its way from a runner to the service.
type sealedSecret struct {
	URL, Header, Placeholder, Value string
}

// seal is what the service learns of a step's secrets, nil when there are none.
func seal(t token.Token, secrets secret.Set) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	var list []sealedSecret
	for _, s := range secrets {
		list = append(list, sealedSecret{s.URL(), s.Header, s.Placeholder, s.Value.Reveal()})
	}
	plain, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return t.Seal(plain)
}

// unseal completes a grant that has secrets.
func unseal(g *proxy.Grant, t token.Token, sealed []byte) error {
	if len(sealed) == 0 {
		return nil
	}
	plain, err := t.Open(sealed)
	if err != nil {
		return err
	}
	var list []sealedSecret
	if json.Unmarshal(plain, &list) != nil {
		return errors.New("the secrets can't be read") // the cause may quote one
	}
	for _, s := range list {
		b, err := secret.Bind(job.Secret{URL: s.URL, Header: s.Header})
		if err != nil {
			return err
		}
		g.Secrets = append(g.Secrets, secret.Bound{Binding: b, Placeholder: s.Placeholder, Value: job.NewValue(s.Value)})
	}
	g.Authority, err = authority(g.Secrets)
	return err
}

// accepted is the service's answer to a session.
func accepted(g proxy.Grant) string {
	if g.Authority == nil {
		return "ok\n"
	}
	return "ok " + base64.StdEncoding.EncodeToString(g.Authority.DER()) + "\n"
}

// accepted reads it.
func (w *way) accepted(answer string) error {
	encoded, ok := strings.CutPrefix(answer, "ok ")
	switch {
	case answer == "ok" && !w.secret:
		return nil
	case answer == "ok":
		return errors.New("it knows no secrets: give runner and service the same version of quavon")
	case !ok || !w.secret:
		return fmt.Errorf("it answered: %.200q", answer)
	}
	der, err := base64.StdEncoding.DecodeString(encoded)
	w.pem = intercept.Encode(der)
	return err
}

// Authority implements runner.Trusted.
func (w *way) Authority() []byte { return w.pem }
