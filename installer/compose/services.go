package compose

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/quavon/quavon/installer/phase"
)

// services is the phase that writes the compose file and starts what it has.
type services struct{ *stack }

var (
	_ phase.Phase    = (*services)(nil)
	_ phase.Keeper   = (*services)(nil)
	_ phase.Restorer = (*services)(nil)
	_ phase.Watcher  = (*services)(nil)
)

// Name implements phase.Phase.
func (*services) Name() string { return phase.Compose }

// Files implements phase.Keeper. Valkey's users are there as digests of random
// passwords.
func (s *services) Files() []string { return []string{s.Target.Compose(), s.secret(usersFile)} }

// Watched implements phase.Watcher.
func (s *services) Watched() []string {
	var all []string
	for _, name := range overrides {
		all = append(all, filepath.Join(s.Target.Dir, name))
	}
	return all
}

// wanted is what the phase is to bring about.
type wanted struct {
	compose, users []byte
	project        *project
}

// prepare renders the files and has compose's loader judge them. Nothing is written.
func (s *services) prepare(ctx context.Context) (*wanted, error) {
	l, err := s.lock()
	if err != nil {
		return nil, err
	}
	ids, err := s.imageIDs(ctx, l)
	if err != nil {
		return nil, err
	}
	w := &wanted{}
	if w.users, err = s.users(); err != nil {
		return nil, err
	}
	if w.compose, err = s.render(ids, l, w.users); err != nil {
		return nil, err
	}
	w.project, err = load(ctx, cli{target: s.Target, file: w.compose})
	return w, err
}

// Plan implements phase.Phase.
func (s *services) Plan(ctx context.Context) ([]phase.Change, error) {
	if err := (cli{target: s.Target}).check(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(s.alone(ctx), s.ownFile()); err != nil {
		return nil, err
	}
	if s.early() {
		return []phase.Change{
			{Action: phase.Create, Target: s.Target.Compose(), Summary: "the services of the installation"},
			{Action: phase.Run, Target: "docker compose up", Summary: "start the services"},
		}, nil
	}
	w, err := s.prepare(ctx)
	unseen := errors.Is(err, errElsewhere) && s.Target.Local && s.Target.Bundle == ""
	if err != nil && !unseen {
		return nil, err
	}
	var changes []phase.Change
	changes = append(changes, fileChange(s.Target.Compose(), w.compose, true)...)
	changes = append(changes, fileChange(s.secret(usersFile), w.users, false)...)
	if unseen {
		return append(changes, phase.Change{
			Action: phase.Run, Target: "docker compose up",
			Summary: "bring the services in line. Which of them isn't known: " + overrides[0] +
				" takes in files of elsewhere (git or oci), which a plan neither fetches nor looks at",
		}), nil
	}
	todo, err := s.todo(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(todo)) {
		changes = append(changes, phase.Change{Action: phase.Run, Target: name, Summary: todo[name]})
	}
	for _, port := range published(w.project) {
		changes = append(changes, phase.Change{Action: phase.Check, Target: "compose.override.yaml", Summary: "note: " + port})
	}
	return changes, nil
}

// early says that the phases in front haven't been applied yet.
func (s *services) early() bool {
	for _, path := range []string{s.Target.Lock(), s.secret("sandbox_signing_key"), s.secret("valkey_sandbox_password")} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// todo says what must happen to which services.
func (s *services) todo(ctx context.Context, w *wanted) (map[string]string, error) {
	hashes, err := cli{target: s.Target, file: w.compose}.hashes(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.engine(ctx)
	if err != nil {
		return nil, err
	}
	units, err := e.units(ctx)
	if err != nil {
		return nil, err
	}
	todo := map[string]string{}
	for name := range w.project.Services {
		todo[name] = "start"
	}
	for _, u := range units {
		_, wanted := w.project.Services[u.service]
		switch {
		case !wanted:
			todo[u.service] = "remove"
		case u.hash != hashes[u.service]:
			todo[u.service] = "replace"
		case u.state == "running":
			delete(todo, u.service)
		}
	}
	return todo, nil
}

// Apply implements phase.Phase.
func (s *services) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if err := (cli{target: s.Target}).check(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.alone(ctx), s.ownFile()); err != nil {
		return err
	}
	w, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	todo, err := s.todo(ctx, w)
	if err != nil {
		return err
	}
	if err := s.write(tx, w); err != nil {
		return err
	}
	// Noted behind the files, services are stopped before those are taken away.
	if len(todo) > 0 {
		if err := s.note(ctx, tx); err != nil {
			return err
		}
	}
	return s.start(ctx, w.project, todo, show)
}

// Acts of this phase.
const (
	actServices = "services"
	actOwner    = "owner"
)

// note writes down what there is before anything is started.
func (s *services) note(ctx context.Context, tx phase.Tx) error {
	e, err := s.engine(ctx)
	if err != nil {
		return err
	}
	units, err := e.units(ctx)
	if err != nil {
		return err
	}
	volumes, err := e.volumes(ctx, ofProject())
	if err != nil {
		return err
	}
	// Services that ran start again with the lock that they had, which they have mounted.
	return tx.Act(phase.Act{Name: actServices, Last: len(units) > 0, Keeps: "volumes of the services", Data: map[string]string{
		"containers": strconv.Itoa(len(units)), "volumes": strconv.Itoa(len(volumes)),
	}}, func() error { return nil })
}

// Undo implements phase.Phase.
func (s *services) Undo(ctx context.Context, act phase.Act, how phase.How, show phase.Reporter) error {
	if act.Name == actOwner {
		return takeBack(act)
	}
	e, err := s.engine(ctx)
	if err != nil {
		return err
	}
	if how == phase.Failed && act.Data["containers"] != "0" {
		show.Line("starting the services as they were")
		return cli{target: s.Target}.run(ctx, show, "up", "--detach", "--no-build")
	}
	alone, err := e.down(ctx, s.Target.Dir, show)
	if err != nil {
		return err
	}
	first := how == phase.Failed && act.Data["volumes"] == "0" // then all of them are of this time
	if alone && (how == phase.Purge || first) {
		if err := e.removeVolumes(ctx, s.Target.Dir, first, show); err != nil {
			return err
		}
	}
	if how == phase.Purge {
		if err := e.removeGuests(ctx); err != nil {
			return err
		}
	}
	return remove(filepath.Join(s.Target.Dir, SocketFile)) // Valkey leaves it
}

// Restore implements phase.Restorer.
func (s *services) Restore(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if err := s.alone(ctx); err != nil {
		return err
	}
	compose, err := os.ReadFile(s.Target.Compose())
	if err != nil {
		return err
	}
	w := &wanted{compose: compose}
	if w.project, err = load(ctx, cli{target: s.Target}); err != nil {
		return err
	}
	todo, err := s.todo(ctx, w)
	if err != nil || len(todo) == 0 {
		return err
	}
	if err := s.note(ctx, tx); err != nil {
		return err
	}
	return s.start(ctx, w.project, todo, show)
}
