package source

import (
	"fmt"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Host is the platform images run on here.
func Host() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// PlatformError is an image that isn't there for the platform.
type PlatformError struct {
	Want v1.Platform
	// Have lists what there is.
	Have []string
}

func (e *PlatformError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("no image for %s", e.Want)
	}
	return fmt.Sprintf("no image for %s, only for %s", e.Want, strings.Join(e.Have, ", "))
}

// variants are what no variant means.
var variants = map[string]string{"amd64": "v1", "arm64": "v8", "arm": "v7"}

func variant(p v1.Platform) string {
	if p.Variant == "" {
		return variants[p.Architecture]
	}
	return p.Variant
}

func matches(have, want v1.Platform) bool {
	return have.OS == want.OS && have.Architecture == want.Architecture && variant(have) == variant(want)
}

// isUnknown is how build tools mark attestations.
func isUnknown(p v1.Platform) bool { return p.OS == "unknown" || p.Architecture == "unknown" }

func isAttestation(d v1.Descriptor) bool {
	return d.Annotations["vnd.docker.reference.type"] == "attestation-manifest" ||
		d.Platform != nil && isUnknown(*d.Platform)
}
