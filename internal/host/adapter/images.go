package adapter

import (
	"context"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host/shelf"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Images is an image store as the host sees it.
type Images struct{ Store *image.Store }

var _ shelf.Images = Images{}

// Resolve implements shelf.Images. What it checks is cheap: manifest and sizes.
func (s Images) Resolve(_ context.Context, ref string) (shelf.Image, error) {
	r, err := image.ParseReference(ref)
	if err != nil {
		return shelf.Image{}, err
	}
	info, err := s.Store.Inspect(r)
	if err != nil {
		return shelf.Image{}, err
	}
	if info.Fault != nil {
		return shelf.Image{}, info.Fault
	}
	m := info.Manifest
	if err := s.Store.Share(m.Digest); err != nil {
		return shelf.Image{}, err
	}
	return shelf.Image{
		Image: described(info),
		Boot: vm.Boot{
			Kernel: filepath.Join(info.Dir, image.KernelFile), Initrd: filepath.Join(info.Dir, image.InitrdFile),
			Cmdline: m.Boot.Cmdline,
		},
		System:  vm.Disk{Base: s.Store.DiskPath(m), BaseFormat: string(m.Disk.Format)},
		Display: api.Display{Width: m.Guest.Width, Height: m.Guest.Height}, User: m.Guest.User,
		Park: guest.Park{Argv: m.Guest.Park.Argv, Class: m.Guest.Park.Class},
	}, nil
}

// List implements shelf.Images. Corrupt images are left out; doctor and inspect
// tell of them.
func (s Images) List(ctx context.Context) ([]api.Image, error) {
	infos, err := s.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]api.Image, 0, len(infos))
	for _, i := range infos {
		if i.Fault == nil {
			list = append(list, described(i))
		}
	}
	return list, nil
}

// Remove implements shelf.Images.
func (s Images) Remove(_ context.Context, ref string, inUse func(digest string) string) error {
	r, err := image.ParseReference(ref)
	if err != nil {
		return err
	}
	_, err = s.Store.Remove(r, func(d image.Digest) error {
		if by := inUse(string(d)); by != "" {
			return &image.InUseError{Image: string(d), By: by}
		}
		return nil
	})
	return err
}

func described(i image.Info) api.Image {
	m := i.Manifest
	tags := i.Tags
	if tags == nil {
		tags = []string{}
	}
	return api.Image{
		Digest: string(m.Digest), Name: m.Name, Tags: tags, Created: m.Created,
		Size: i.Allocated, Virtual: m.Disk.VirtualSize, OS: m.Guest.OS, Recipe: string(m.Build.Recipe),
	}
}
