package guard

import (
	"net/http"
	"slices"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

func (g *Guard) createVolume(c *call) error {
	var b volumeBody
	if err := decode(c.r.Body, schemas, "volume", &b); err != nil {
		return err
	}
	if err := checkNewVolume(&b); err != nil {
		return refuse("create a volume: %v", err)
	}
	return g.post(c, "/volumes/create", nil, b, &volume{})
}

func (g *Guard) volumes(c *call) error {
	q, err := filters(c.q)
	if err != nil {
		return err
	}
	var list struct{ Volumes []volume }
	if err := g.get(c.r.Context(), c.version+"/volumes", q, &list); err != nil {
		return err
	}
	list.Volumes = slices.DeleteFunc(list.Volumes, func(v volume) bool { return checkVolume(v) != nil })
	answer(c.w, http.StatusOK, list)
	return nil
}

// removeVolume removes a scratch volume.
func (g *Guard) removeVolume(c *call) error {
	var v volume
	if err := g.get(c.r.Context(), c.version+"/volumes/"+c.name, nil, &v); err != nil {
		return err
	}
	if err := checkLabels(v.Labels, object.RoleScratch); err != nil {
		return &refusal{http.StatusNotFound, "no such volume of quavon's"}
	}
	return g.command(c, http.MethodDelete, "/volumes/"+c.name, nil)
}
