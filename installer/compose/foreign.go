package compose

import (
	"context"
	"os"
	"strings"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// An engine has one project of a name. Compose takes the containers of another directory
// for its own when both are called the same: it would replace or remove them.

// foreign says that a service is of another directory, as long as there is that one: the
// services of a directory that was moved or removed are taken over.
func (u unit) foreign(dir string) bool {
	if u.dir == "" || phase.SameFile(u.dir, dir) {
		return false
	}
	_, err := os.Stat(u.dir)
	return err == nil
}

// others is another directory that some services are of, "" for none.
func others(units []unit, dir string) string {
	for _, u := range units {
		if u.foreign(dir) {
			return u.dir
		}
	}
	return ""
}

// others is the directory of another installation on this engine, "" for none.
func (s *stack) others(ctx context.Context) (string, error) {
	e, err := s.engine(ctx)
	if err != nil {
		return "", err
	}
	units, err := e.units(ctx)
	return others(units, s.Target.Dir), err
}

// alone refuses an engine with services of another directory, or with the volumes that the
// installation there has left: its data would be these services'.
func (s *stack) alone(ctx context.Context) error {
	theirs, err := s.others(ctx)
	if err != nil {
		return err
	}
	if theirs != "" {
		return fault.New("the engine has services of the project "+Project+" in "+theirs+", which these would replace",
			"`quavon install --dir "+theirs+"`; or, when they are to go, `quavon uninstall --dir "+theirs+"`")
	}
	e, err := s.engine(ctx)
	if err != nil {
		return err
	}
	theirs, names, err := e.keptBy(ctx, s.Target.Dir)
	if err != nil || theirs == "" {
		return err
	}
	return fault.New("the engine has volumes of the installation in "+theirs+", which these services would use: "+strings.Join(names, " "),
		"`quavon install --dir "+theirs+"`; or, when that data is to go, `quavon uninstall --purge --dir "+theirs+"`")
}
