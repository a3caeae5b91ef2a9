package signature

import (
	"errors"
	"regexp"

	"github.com/sigstore/cosign/v2/pkg/cosign"
)

// matching returns the name of a certificate that cosign accepted it for: the
// lock notes that one, so that it is the only one from then on.
func matching(accepted []cosign.Identity, names []string) (string, error) {
	for _, a := range accepted {
		for _, n := range names {
			if n == a.Subject {
				return n, nil
			}
			if a.SubjectRegExp == "" {
				continue
			}
			re, err := regexp.Compile(a.SubjectRegExp)
			if err != nil {
				return "", err
			}
			if re.MatchString(n) {
				return n, nil
			}
		}
	}
	if len(accepted) == 0 {
		return "", nil
	}
	return "", errors.New("the certificate has no identity that was asked for")
}
