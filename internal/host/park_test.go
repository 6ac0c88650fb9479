package host_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestPark: what an image names stands ready in its boot snapshot; one that does
// not come up is no reason for desktops to boot.
func TestPark(t *testing.T) {
	for name, fails := range map[string]bool{"parked": false, "not parked": true} {
		t.Run(name, func(t *testing.T) {
			f := hosttest.New(t)
			var asked atomic.Int64
			f.Provider.OnBorn(func(m *hosttest.Machine) {
				if of, _ := m.Origin(); of != nil {
					return
				}
				m.Guest.Desktop.Override(func(ctx context.Context, msg guest.HelperMessage) *guest.HelperMessage {
					if msg.Op == guest.OpPark {
						asked.Add(1)
						if fails {
							return &guest.HelperMessage{ID: msg.ID, Error: guest.ErrorFrom(&guest.Error{Code: guest.CodeInternal, Message: "no window came"})}
						}
					}
					return hosttest.DrawnWindows(ctx, msg)
				})
			})
			v := f.Create(api.CreateDesktop{Name: "one"})
			if v.Origin != api.OriginTemplate {
				t.Errorf("origin is %s: %s", v.Origin, v.OriginReason)
			}
			saysNotParked(t, f, v, fails)
			if n := asked.Load(); n != 1 {
				t.Errorf("guests were asked %d times to park, want once", n)
			}
		})
	}
}

// saysNotParked: a desktop, its children, the snapshot that it was cloned from and
// the tree say whether what should stand ready in it does, and why not.
func saysNotParked(t *testing.T, f *hosttest.Fixture, v api.Desktop, want bool) {
	t.Helper()
	ctx := patient(t)
	snap, err := f.Host.Snapshots.Get(ctx, project, v.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	forked, err := f.Host.Fork(ctx, project, v.ID, api.Fork{}, "")
	if err != nil {
		t.Fatal(err)
	}
	child := ready(t, f, forked[0], nil)
	tree, err := f.Host.Tree(ctx, project)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{"desktop": v.NotParked, "snapshot": snap.NotParked, "child": child.NotParked}
	for _, n := range tree.Nodes {
		if n.Kind != "image" {
			said["node "+n.ID] = n.NotParked
		}
	}
	for who, text := range said {
		if strings.Contains(text, "no window came") != want || (!want && text != "") {
			t.Errorf("%s says %q", who, text)
		}
	}
}

// TestSealAgain: another boot snapshot takes the place of one without what should
// stand ready, and of one that is whole only when it is whole too.
func TestSealAgain(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	var fails atomic.Bool
	fails.Store(true)
	f.Provider.OnBorn(func(m *hosttest.Machine) {
		m.Guest.Desktop.Override(func(ctx context.Context, msg guest.HelperMessage) *guest.HelperMessage {
			if msg.Op == guest.OpPark && fails.Load() {
				return &guest.HelperMessage{ID: msg.ID, Error: guest.ErrorFrom(&guest.Error{Code: guest.CodeInternal, Message: "no window came"})}
			}
			return hosttest.DrawnWindows(ctx, msg)
		})
	})
	seal := func(again bool) (api.Snapshot, error) {
		return f.Host.SealBoot(ctx, "test", api.SealImage{Again: again})
	}
	first, err := seal(false)
	if err != nil || first.NotParked == "" {
		t.Fatalf("sealed %+v, %v", first, err)
	}
	if same, err := seal(false); err != nil || same.ID != first.ID {
		t.Errorf("sealed once more: %+v, %v", same, err)
	}
	if _, err := seal(true); err == nil || !strings.Contains(err.Error(), "no window came") {
		t.Errorf("sealed again without it: %v", err)
	}
	old := f.Create(api.CreateDesktop{Name: "old"})
	if old.Snapshot != first.ID || old.Origin != api.OriginTemplate {
		t.Errorf("the old one does not serve any more: %+v", old)
	}
	fails.Store(false)
	second, err := seal(true)
	if err != nil || second.ID == first.ID || second.NotParked != "" {
		t.Fatalf("sealed again: %+v, %v", second, err)
	}
	if v := f.Create(api.CreateDesktop{Name: "new"}); v.Snapshot != second.ID || v.NotParked != "" {
		t.Errorf("a new desktop is %+v", v)
	}
	if ids := f.Provider.SnapshotIDs(); len(ids) != 1 || string(ids[0]) != second.ID {
		t.Errorf("snapshots are %v, want the second alone", ids)
	}
	says(t, f, "old", "") // it goes on
}
