package lineage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/lineage"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func desk(id, parent, snapshot string, gone bool) store.Desktop {
	d := store.Desktop{Desktop: api.Desktop{ID: id, Name: id, Parent: parent, Snapshot: snapshot, ImageDigest: "sha256:i", Created: noon}}
	if gone {
		d.Deleted = noon
	}
	return d
}

func snap(id, kind, desktop string) store.Snapshot {
	return store.Snapshot{Snapshot: api.Snapshot{ID: id, Kind: kind, Desktop: desktop, ImageDigest: "sha256:i", Created: noon}}
}

func TestTree(t *testing.T) {
	tests := []struct {
		name  string
		parts lineage.Parts
		want  []string // id<parent
	}{
		{"nothing", lineage.Parts{}, nil},
		{"cold and cloned", lineage.Parts{
			Desktops:  []store.Desktop{desk("d1", "", "", false), desk("d2", "", "t1", false)},
			Snapshots: []store.Snapshot{snap("t1", store.KindBoot, "")},
		}, []string{"sha256:i<", "d1<sha256:i", "t1<sha256:i", "d2<t1"}},
		{"forks of what is gone", lineage.Parts{
			Desktops: []store.Desktop{desk("d1", "", "", true), desk("d2", "d1", "", true), desk("d3", "d2", "", false)},
		}, []string{"sha256:i<", "d1<sha256:i", "d2<d1", "d3<d2"}},
		{"restored to its own instant", lineage.Parts{
			Desktops:  []store.Desktop{desk("d1", "", "s1", false)},
			Snapshots: []store.Snapshot{snap("s1", store.KindSnapshot, "d1")},
		}, []string{"sha256:i<", "d1<sha256:i", "s1<d1"}},
		{"restored to its child's instant", lineage.Parts{
			Desktops:  []store.Desktop{desk("d1", "", "s2", false), desk("d2", "d1", "", false)},
			Snapshots: []store.Snapshot{snap("s2", store.KindSnapshot, "d2")},
		}, []string{"sha256:i<", "d1<sha256:i", "d2<d1", "s2<d2"}},
		{"two restored to each other's", lineage.Parts{
			Desktops:  []store.Desktop{desk("d1", "", "s2", false), desk("d2", "", "s1", false)},
			Snapshots: []store.Snapshot{snap("s1", store.KindSnapshot, "d1"), snap("s2", store.KindSnapshot, "d2")},
		}, []string{"sha256:i<", "d2<sha256:i", "s2<d2", "d1<s2", "s1<d1"}},
		{"restored to an instant of its own, once cloned", lineage.Parts{
			Desktops:  []store.Desktop{func() store.Desktop { d := desk("d1", "", "s1", false); d.CameFrom = "t1"; return d }()},
			Snapshots: []store.Snapshot{snap("s1", store.KindSnapshot, "d1"), snap("t1", store.KindBoot, "")},
		}, []string{"sha256:i<", "t1<sha256:i", "d1<t1", "s1<d1"}},
		{"asleep", lineage.Parts{
			Desktops:  []store.Desktop{desk("d1", "", "", false)},
			Snapshots: []store.Snapshot{snap("s1", store.KindSuspended, "d1")},
		}, []string{"sha256:i<", "d1<sha256:i"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.parts.Use = func(string) lineage.Use { return lineage.Use{MemoryPrivate: 7} }
			var got []string
			for _, n := range lineage.Tree(tt.parts).Nodes {
				got = append(got, n.ID+"<"+n.Parent)
				if n.Kind == "desktop" && n.Gone == (n.MemoryPrivate == 7) {
					t.Errorf("node %+v", n)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTreeOfWhatIsKept: an image has its name, and all that is on disk is shown
// with what it takes: parts of what was removed, and what nobody named.
func TestTreeOfWhatIsKept(t *testing.T) {
	removed, asleep := snap("s1", store.KindSnapshot, "d1"), snap("s2", store.KindSuspended, "d1")
	removed.Deleted, removed.MemoryBytes = noon, 99
	p := lineage.Parts{
		Desktops:  []store.Desktop{desk("d1", "", "", false), desk("d2", "d1", "", false)},
		Snapshots: []store.Snapshot{removed, asleep, snap("s3", store.KindSnapshot, "d1")},
		Images:    []api.Image{{Digest: "sha256:i", Name: "debian", Size: 5}},
		Kept: []vm.Kept{
			{Snapshot: "s1", MemoryBytes: 1, DiskBytes: 2},
			{Snapshot: "s2", Listed: true, MemoryBytes: 3},
			{Snapshot: "f1", DiskBytes: 4},
			{Snapshot: "x1", DiskBytes: 4},
		},
		Use: func(id string) lineage.Use {
			return map[string]lineage.Use{"d2": {On: []vm.SnapshotID{"f1", "s1"}}}[id]
		},
	}
	var got []string
	for _, n := range lineage.Tree(p).Nodes {
		got = append(got, fmt.Sprintf("%s %s<%s gone=%t %d+%d", n.ID, n.Name, n.Parent, n.Gone, n.MemoryPrivate, n.DiskPrivate))
	}
	want := []string{
		"sha256:i debian< gone=false 0+5",
		"d1 d1<sha256:i gone=false 0+0",
		"f1 fork<d1 gone=true 0+4",
		"d2 d2<d1 gone=false 0+0",
		"s1 snapshot<d1 gone=true 1+2",
		"s2 suspended<d1 gone=false 3+0",
		"s3 snapshot<d1 gone=false 0+0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, snapshots := p.Missing(); !slices.Equal(snapshots, []string{"f1", "x1"}) {
		t.Errorf("looked for are %v", snapshots)
	}
}

func TestMissing(t *testing.T) {
	p := lineage.Parts{
		Desktops:  []store.Desktop{desk("d3", "d2", "", false), desk("d4", "d2", "s1", false), desk("d5", "d3", "", false)},
		Snapshots: []store.Snapshot{snap("s2", store.KindSnapshot, "d9")},
	}
	desktops, snapshots := p.Missing()
	if diff := cmp.Diff([]string{"d2", "d9"}, desktops); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"s1"}, snapshots); diff != "" {
		t.Error(diff)
	}
}
