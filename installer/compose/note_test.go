package compose

import (
	"testing"

	"github.com/quavon/quavon/installer/phase"
)

// acts are what a phase has noted.
type acts struct {
	phase.Tx
	all []phase.Act
}

func (a *acts) Act(act phase.Act, do func() error) error {
	a.all = append(a.all, act)
	return do()
}

// TestNoted: services that run have a lock mounted. Those of before start again when it is
// back, and new ones are stopped while all that they have is still there.
func TestNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, dirs := range [][]string{nil, {dir}} {
		s, _ := stackAt(t, dir, dirs...)
		tx := &acts{}
		if err := (&services{s}).note(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if len(tx.all) != 1 || tx.all[0].Name != actServices || tx.all[0].Last != (dirs != nil) {
			t.Errorf("with services of %v: %+v", dirs, tx.all)
		}
	}
}
