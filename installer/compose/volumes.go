package compose

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// Volumes outlive their services, and have the names that every installation on the engine
// gives its own: a label says which one's they are. They are made here and not by compose,
// which from version 2.31 on asks whether to throw a volume's data away as soon as labels in
// a compose file differ from those that it has once given.

// Labels of volumes. The first has the installation's directory.
const (
	labelInstallation = "io.quavon.installation"
	labelVolume       = "com.docker.compose.volume"
)

// volumeOf is a volume of a compose file.
type volumeOf struct {
	Name       string            `json:"name"`
	Driver     string            `json:"driver"`
	DriverOpts map[string]string `json:"driver_opts"`
	Labels     map[string]string `json:"labels"`
	External   any               `json:"external"`
}

// mounted are the volumes that services have, by their keys.
func (p *project) mounted() map[string]volumeOf {
	all := map[string]volumeOf{}
	for _, s := range p.Services {
		for _, m := range s.Volumes {
			v, ok := p.Volumes[m.Source]
			if ok && m.Type == "volume" && (v.External == nil || v.External == false) {
				all[m.Source] = v
			}
		}
	}
	return all
}

// makeVolumes makes those that aren't there, as an installation's own.
func (e *engine) makeVolumes(ctx context.Context, p *project, dir string) error {
	for key, v := range p.mounted() {
		_, err := e.VolumeInspect(ctx, v.Name)
		if errdefs.IsNotFound(err) {
			labels := map[string]string{labelProject: Project, labelVolume: key, labelInstallation: dir}
			maps.Copy(labels, v.Labels)
			_, err = e.VolumeCreate(ctx, volume.CreateOptions{Name: v.Name, Driver: v.Driver, DriverOpts: v.DriverOpts, Labels: labels})
		}
		if err != nil {
			return fault.Wrap(err, "make the volume "+v.Name, "see the engine's log")
		}
	}
	return nil
}

func (e *engine) volumes(ctx context.Context, which filters.Args) ([]*volume.Volume, error) {
	list, err := e.VolumeList(ctx, volume.ListOptions{Filters: which})
	if err != nil {
		return nil, fault.Wrap(err, "list the volumes", "see the engine's log")
	}
	return list.Volumes, nil
}

// byOwner are the names of the project's volumes by the directory of whose they are: dir
// for one's own however that is called, "" for those that don't say it.
func (e *engine) byOwner(ctx context.Context, dir string) (map[string][]string, error) {
	list, err := e.volumes(ctx, ofProject())
	all := map[string][]string{}
	for _, v := range list {
		owner := v.Labels[labelInstallation]
		if owner != "" && phase.SameFile(owner, dir) {
			owner = dir
		}
		all[owner] = append(all[owner], v.Name)
	}
	return all, err
}

// keptBy is another directory whose installation has left volumes here, with their names.
// Those of a directory that has none any more are taken over, as services are.
func (e *engine) keptBy(ctx context.Context, dir string) (theirs string, names []string, err error) {
	all, err := e.byOwner(ctx, dir)
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		if owner != "" && owner != dir && phase.Installed(owner) {
			return owner, all[owner], err
		}
	}
	return "", nil, err
}

// removeVolumes removes the installation's volumes, with nameless also those that don't say
// whose they are. What stays is told.
func (e *engine) removeVolumes(ctx context.Context, dir string, nameless bool, show phase.Reporter) error {
	all, err := e.byOwner(ctx, dir)
	if err != nil {
		return err
	}
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		names := all[owner]
		switch {
		case owner == dir || owner == "" && nameless:
			for _, name := range names {
				if err := e.removeVolume(ctx, name, errdefs.IsNotFound); err != nil {
					return err
				}
			}
		case owner == "":
			show.Line("volumes that don't say which installation's they are stay; when nobody needs them: " + removal(names))
		case phase.Installed(owner):
			show.Line("volumes of the installation in " + owner + " stay: " + strings.Join(names, " "))
		default:
			show.Line("volumes of an installation that was in " + owner + " stay; when nobody needs them: " + removal(names))
		}
	}
	return nil
}

func removal(names []string) string { return "docker volume rm " + strings.Join(names, " ") }

// removeGuests removes the volumes with quavon-guest. Those that others use stay; the
// others are filled again by whoever needs them.
func (e *engine) removeGuests(ctx context.Context) error {
	list, err := e.volumes(ctx, filters.NewArgs(filters.Arg("label", object.LabelRole+"="+object.RoleGuest)))
	if err != nil {
		return err
	}
	for _, v := range list {
		err := e.removeVolume(ctx, v.Name, func(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsConflict(err) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) removeVolume(ctx context.Context, name string, ignore func(error) bool) error {
	if err := e.VolumeRemove(ctx, name, false); err != nil && !ignore(err) {
		return fault.Wrap(err, "remove the volume "+name, "stop what uses it: `docker ps -a --filter volume="+name+"`")
	}
	return nil
}
