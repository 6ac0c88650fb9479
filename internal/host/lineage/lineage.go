// Package lineage draws where desktops came from.
package lineage

import (
	"cmp"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Use is what a node takes now, in bytes, and the snapshots that its machine
// stands on.
type Use struct {
	MemoryPrivate, MemoryShared, DiskPrivate int64

	On []vm.SnapshotID
}

// Parts are what a tree is drawn from.
type Parts struct {
	// Desktops are those that exist and those that are gone and had children.
	Desktops []store.Desktop
	// Snapshots likewise; those of suspended desktops are part of these.
	Snapshots []store.Snapshot
	// Images are those that are stored.
	Images []api.Image
	// Kept is what is on disk of snapshots; nil: it is not known.
	Kept []vm.Kept
	// Use answers what a desktop takes.
	Use func(id string) Use
}

// Missing are the ids that desktops and snapshots say they came from, and that
// are not among them: parents that are gone.
func (p Parts) Missing() (desktops, snapshots []string) {
	have := map[string]bool{}
	for _, d := range p.Desktops {
		have[d.ID] = true
	}
	for _, s := range p.Snapshots {
		have[s.ID] = true
	}
	want := func(list *[]string, id string) {
		if id != "" && !have[id] && !slices.Contains(*list, id) {
			*list = append(*list, id)
		}
	}
	for _, d := range p.Desktops {
		want(&desktops, d.Parent)
		want(&snapshots, d.Snapshot)
		want(&snapshots, d.CameFrom)
	}
	for _, s := range p.Snapshots {
		want(&desktops, s.Desktop)
	}
	for _, k := range p.Kept {
		want(&snapshots, string(k.Snapshot))
	}
	return desktops, snapshots
}

// Tree draws them: parents before children, older ones first.
func Tree(p Parts) api.Tree {
	nodes := map[string]api.Node{}
	for _, s := range p.Snapshots {
		if s.Kind == store.KindSuspended {
			continue
		}
		nodes[s.ID] = api.Node{
			Kind: "snapshot", ID: s.ID, Name: cmp.Or(s.Name, s.Kind), Gone: !s.Deleted.IsZero(), Created: s.Created,
			MemoryPrivate: s.MemoryBytes, DiskPrivate: s.DiskBytes, NotParked: s.NotParked,
		}
	}
	for _, d := range p.Desktops {
		use := Use{}
		if d.Deleted.IsZero() {
			use = p.Use(d.ID)
		}
		nodes[d.ID] = api.Node{
			Kind: "desktop", ID: d.ID, Name: d.Name, State: string(d.State), Gone: !d.Deleted.IsZero(), Created: d.Created,
			MemoryPrivate: use.MemoryPrivate, MemoryShared: use.MemoryShared, DiskPrivate: use.DiskPrivate, NotParked: d.NotParked,
		}
	}
	parents := parentsOf(p, nodes)
	p.weigh(nodes, parents)
	for id, parent := range parents {
		n := nodes[id]
		n.Parent = parent
		nodes[id] = n
		if _, known := nodes[parent]; !known && parent != "" {
			nodes[parent] = p.image(parent)
		}
	}
	return api.Tree{Nodes: ordered(nodes)}
}

// image is the node of an image.
func (p Parts) image(digest string) api.Node {
	for _, i := range p.Images {
		if i.Digest == digest {
			return api.Node{Kind: "image", ID: digest, Name: i.Name, Created: i.Created, DiskPrivate: i.Size}
		}
	}
	return api.Node{Kind: "image", ID: digest, Gone: p.Images != nil}
}

// weigh gives snapshots the sizes of what is on disk of them, and adds those that
// nobody named and are still needed: the memory of suspended desktops, and what
// was sealed for forks alone, which lies below the desktop that was forked.
func (p Parts) weigh(nodes map[string]api.Node, parents map[string]string) {
	if p.Kept == nil {
		return
	}
	kept := map[string]vm.Kept{}
	for _, k := range p.Kept {
		kept[string(k.Snapshot)] = k
	}
	for id, n := range nodes {
		if n.Kind == "snapshot" {
			n.MemoryPrivate, n.DiskPrivate = kept[id].MemoryBytes, kept[id].DiskBytes
			nodes[id] = n
		}
	}
	for _, s := range p.Snapshots {
		if k, there := kept[s.ID]; there && s.Kind == store.KindSuspended {
			nodes[s.ID] = api.Node{
				Kind: "snapshot", ID: s.ID, Name: s.Kind, Gone: !s.Deleted.IsZero(), Created: s.Created,
				MemoryPrivate: k.MemoryBytes, DiskPrivate: k.DiskBytes, NotParked: s.NotParked,
			}
			parents[s.ID] = known(nodes, s.Desktop, s.ImageDigest)
		}
	}
	for _, d := range p.Desktops {
		if !d.Deleted.IsZero() {
			continue
		}
		for _, on := range p.Use(d.ID).On {
			k, there := kept[string(on)]
			if _, known := nodes[string(on)]; known || !there {
				continue
			}
			nodes[string(on)] = api.Node{
				Kind: "snapshot", ID: string(on), Name: nameOfFork, Gone: !k.Listed, NotParked: d.NotParked,
				Created:       d.Created.Add(-time.Millisecond), // before the first of its clones
				MemoryPrivate: k.MemoryBytes, DiskPrivate: k.DiskBytes,
			}
			parents[string(on)] = known(nodes, d.Parent, d.ImageDigest)
		}
	}
}

// nameOfFork is what a snapshot is called that was made for forks alone.
const nameOfFork = "fork"

// parentsOf finds the parent of each node. A desktop that was put back to an
// instant of its own, or of what came from it, keeps the parent that it had.
func parentsOf(p Parts, nodes map[string]api.Node) map[string]string {
	parents := map[string]string{}
	for _, s := range p.Snapshots {
		if _, drawn := nodes[s.ID]; drawn {
			parents[s.ID] = known(nodes, s.Desktop, s.ImageDigest)
		}
	}
	for _, d := range p.Desktops {
		parents[d.ID] = known(nodes, d.Parent, d.ImageDigest)
	}
	for _, d := range p.Desktops {
		for _, from := range []string{d.Snapshot, d.CameFrom} {
			if _, drawn := nodes[from]; drawn && !above(parents, from, d.ID) {
				parents[d.ID] = from
				break
			}
		}
	}
	return parents
}

// known is id when it is a node, else what comes next.
func known(nodes map[string]api.Node, id, otherwise string) string {
	if _, ok := nodes[id]; ok {
		return id
	}
	return otherwise
}

// above says whether id is among the ancestors of from, or from itself.
func above(parents map[string]string, from, id string) bool {
	for at := from; at != ""; at = parents[at] {
		if at == id {
			return true
		}
	}
	return false
}

// ordered walks the tree from its roots.
func ordered(nodes map[string]api.Node) []api.Node {
	children := map[string][]api.Node{}
	for _, n := range nodes {
		children[n.Parent] = append(children[n.Parent], n)
	}
	list := make([]api.Node, 0, len(nodes))
	var walk func(parent string)
	walk = func(parent string) {
		kids := children[parent]
		slices.SortFunc(kids, func(a, b api.Node) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		for _, n := range kids {
			list = append(list, n)
			walk(n.ID)
		}
	}
	walk("")
	return list
}
