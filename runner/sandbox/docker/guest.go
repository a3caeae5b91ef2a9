package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// maxGuest bounds the guest binary.
const maxGuest = 64 << 20

// guestVolume is the volume that holds a guest binary. It is named by the binary's
// sha256, filled when it is empty, and read back before this state directory uses
// it first: a volume of that name may be another's, or half filled.
func (b *Backend) guestVolume(ctx context.Context, path, image string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name := b.guests[path]; name != "" {
		return name, nil
	}
	binary, err := os.ReadFile(path)
	if err == nil && len(binary) > maxGuest {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxGuest)
	}
	if err != nil {
		return "", fault.Wrap(err, "read quavon-guest", "run make, which builds it beside quavon")
	}
	sum := sha256.Sum256(binary)
	name := object.GuestVolume(hex.EncodeToString(sum[:]))
	if err := b.provide(ctx, name, image, binary); err != nil {
		return "", err
	}
	b.guests[path] = name
	return name, nil
}

// provide makes sure that the volume has the binary and nothing else has its name.
func (b *Backend) provide(ctx context.Context, name, image string, binary []byte) error {
	labels := b.labels(object.RoleGuest, "")
	delete(labels, object.LabelInstance) // it serves all who have the same binary
	delete(labels, object.LabelBackend)
	v, err := b.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: labels})
	if err != nil {
		return fault.Wrap(err, "make the volume for quavon-guest", "see the engine's log")
	}
	if v.Labels[object.LabelRole] != object.RoleGuest || v.Driver != "local" || len(v.Options) > 0 {
		return fault.New("the volume "+name+" is not quavon's", "remove it: docker volume rm "+name)
	}
	if b.isChecked(v) {
		return nil
	}
	host := &container.HostConfig{Mounts: []mount.Mount{volumeMount(name, object.GuestDir, false)}}
	err = b.withHelper(ctx, image, host, func(ctx context.Context, id string) error { return b.fill(ctx, id, binary) })
	if err != nil {
		return fault.Wrap(err, "fill the volume for quavon-guest", "see the engine's log, and the space on its disk")
	}
	return b.noteChecked(v)
}

// checkedFile names the volume that was last filled or read back. An engine's
// volume that was made anew has another time.
const checkedFile = "docker-guest"

func stamp(v volume.Volume) string { return v.Name + " " + v.CreatedAt + "\n" }

func (b *Backend) isChecked(v volume.Volume) bool {
	have, err := os.ReadFile(b.State.Path(checkedFile))
	return err == nil && v.CreatedAt != "" && string(have) == stamp(v)
}

func (b *Backend) noteChecked(v volume.Volume) error {
	return renameio.WriteFile(b.State.Path(checkedFile), []byte(stamp(v)), 0o600)
}

func (b *Backend) fill(ctx context.Context, id string, binary []byte) error {
	have, err := b.readFile(ctx, id, object.GuestPath, maxGuest)
	if err == nil && bytes.Equal(have, binary) {
		return nil
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	err = tw.WriteHeader(&tar.Header{Name: object.GuestName, Mode: 0o555, Size: int64(len(binary)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = tw.Write(binary)
	}
	if err == nil {
		err = tw.Close()
	}
	if err == nil {
		err = b.api.CopyToContainer(ctx, id, object.GuestDir, &buf, container.CopyToContainerOptions{})
	}
	if err == nil {
		have, err = b.readFile(ctx, id, object.GuestPath, maxGuest)
	}
	if err == nil && !bytes.Equal(have, binary) {
		err = errors.New("what was written reads back as something else")
	}
	return err
}

func volumeMount(name, target string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: name, Target: target, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	}
}
