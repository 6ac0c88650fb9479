package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// sharing is a host whose blob store others have too; without a key it does not
// encrypt.
func sharing(t *testing.T, below *blobtest.Memory, key string) *door {
	t.Helper()
	b := workspaces.Blobs{Objects: below}
	if key != "" {
		sealed, err := seal.New(below, strings.NewReader(key))
		if err != nil {
			t.Fatal(err)
		}
		b = workspaces.Blobs{Objects: sealed, Key: sealed.Key()}
	}
	return newDoorOver(t, hosttest.New(t, func(c *host.Config) { c.Blobs = b }))
}

// refused fails unless an error has a code and the words.
func refused(t *testing.T, what string, err error, want api.Code, words ...string) {
	t.Helper()
	p, ok := errors.AsType[*api.Error](err)
	if !ok || p.Code != want {
		t.Errorf("%s: %v, want %s", what, err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, without %q", what, err, w)
		}
	}
}

// TestSnapshotExports: a snapshot goes from one host into the blob store and from
// there to another host, and is cloned there; a damaged one is refused by name.
func TestSnapshotExports(t *testing.T) {
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	below := &blobtest.Memory{}
	one, two := sharing(t, below, key), sharing(t, below, key)
	ctx := t.Context()
	one.Create(api.CreateDesktop{Name: "first"})
	snap, err := one.Client.Desktop("first").Snapshot(ctx, "base")
	if err != nil {
		t.Fatal(err)
	}
	made, err := one.Client.Snapshots().Store(ctx, "base", "login")
	if err != nil || made.Name != "login" || made.Snapshot != "base" || made.Digest != snap.Digest || made.Bytes == 0 {
		t.Fatalf("stored %+v, %v", made, err)
	}
	if list, err := two.Client.Snapshots().Stored(ctx); err != nil || len(list) != 1 || list[0] != made {
		t.Errorf("listed %+v, %v", list, err)
	}
	if got, err := two.Client.Snapshots().Fetch(ctx, "login", "here"); err != nil || got.Name != "here" || got.ImageDigest != snap.ImageDigest {
		t.Errorf("fetched %+v, %v", got, err)
	}
	twin, err := two.Client.Desktops().Create(ctx, api.CreateDesktop{Snapshot: "here"}, client.Until(api.StageDrawn))
	if err != nil || twin.Info.Origin != api.OriginSnapshot {
		t.Errorf("%+v, %v", twin, err)
	}

	_, err = one.Client.Snapshots().Store(ctx, "base", "login")
	refused(t, "a taken name", err, api.CodeConflict)
	_, err = one.Client.Snapshots().Store(ctx, "base", "Not/a name")
	refused(t, "a bad name", err, api.CodeInvalid)
	_, err = two.Client.Snapshots().Fetch(ctx, "login", "here")
	refused(t, "a taken snapshot", err, api.CodeConflict)
	_, err = two.Client.Snapshots().Fetch(ctx, "nope", "there")
	refused(t, "no export", err, api.CodeNotFound)
	reader, err := client.New(one.HTTP.URL, client.WithToken(one.tokenOf(t, "default", "read")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = reader.Snapshots().Store(ctx, "base", "stolen")
	refused(t, "who may only look", err, api.CodeForbidden)

	all, err := below.List(ctx, "snapshots/", "", 100)
	if err != nil || len(all) != 2 {
		t.Fatalf("objects %+v, %v", all, err)
	}
	part := all[len(all)-1].Key
	below.Damage(part, func(b []byte) []byte { return b[:len(b)-1] })
	_, err = two.Client.Snapshots().Fetch(ctx, "login", "there")
	refused(t, "a damaged part", err, api.CodeImageCorrupt, part)
	_, err = two.Client.Snapshots().Get(ctx, "there")
	refused(t, "what was damaged", err, api.CodeNotFound)
	if err := two.Client.Snapshots().RemoveStored(ctx, "login"); err != nil {
		t.Error(err)
	}
	refused(t, "a second removal", one.Client.Snapshots().RemoveStored(ctx, "login"), api.CodeNotFound)
	if all, err := below.List(ctx, "snapshots/", "", 100); err != nil || len(all) != 0 {
		t.Errorf("left %+v, %v", all, err)
	}
}

// TestSnapshotExportsInTheClear: memory goes into no store that does not encrypt.
func TestSnapshotExportsInTheClear(t *testing.T) {
	below := &blobtest.Memory{}
	d := sharing(t, below, "")
	d.Create(api.CreateDesktop{Name: "first"})
	if _, err := d.Client.Desktop("first").Snapshot(t.Context(), "base"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Client.Snapshots().Store(t.Context(), "base", "login")
	refused(t, "a store that does not encrypt", err, api.CodePrecondition, "encrypt")
	if all, err := below.List(t.Context(), "snapshots/", "", 100); err != nil || len(all) != 0 {
		t.Errorf("stored %+v, %v", all, err)
	}
}
