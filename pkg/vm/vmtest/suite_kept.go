package vmtest

import (
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

// stillKept checks that a provider that tells what it keeps tells of a snapshot
// that was removed and is needed.
func stillKept(t *testing.T, p vm.Provider, id vm.SnapshotID) {
	t.Helper()
	keeper, ok := p.(vm.Keeper)
	if !ok {
		return
	}
	all, err := keeper.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Snapshot == id && (k.Listed || k.MemoryBytes+k.DiskBytes <= 0) || k.Snapshot != id && !k.Listed {
			t.Errorf("kept is %+v", k)
		}
	}
	if !slices.ContainsFunc(all, func(k vm.Kept) bool { return k.Snapshot == id }) {
		t.Errorf("kept are %+v, without %s", all, id)
	}
}
