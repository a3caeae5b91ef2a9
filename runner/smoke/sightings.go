package smoke

import (
	"regexp"
	"sync"
)

// token is what every attempt says, so that a listener knows whose it is: a DNS label
// as well as a line of text. who is tokenInside or tokenControl.
func token(nonce, who, sub string) string { return nonce + "-" + who + "-" + sub }

// Who speaks.
const (
	tokenInside  = "inside"
	tokenControl = "control"
)

var tokenPattern = regexp.MustCompile(`[a-z0-9]{12}-(?:inside|control)-[a-z0-9-]{1,40}`)

// sightings count the tokens that reached a listener.
type sightings struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *sightings) see(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	for _, t := range tokenPattern.FindAll(data, -1) {
		s.seen[string(t)]++
	}
}

// count says how often a token was seen.
func (s *sightings) count(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[token]
}
