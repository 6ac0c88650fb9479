package desktops

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *group) treeCmd() *cobra.Command {
	var picture string
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "Show who was forked from whom, and what each costs",
		Long: `Draws the lineage of desktops and snapshots. PRIVATE is what each has for itself,
SHARED the size of the memory image whose pages it maps: what was not written
since costs nothing. What was removed is kept in the picture for its children;
"removed, needed" is what they still need of it. What was sealed for forks alone
is called fork.`,
		Example: `  vmhost tree
  vmhost tree --json | jq '[.nodes[].memory_private_bytes] | add'
  vmhost tree --picture tree.png`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tree(cmd.Context(), picture) },
	}
	cmd.Flags().StringVar(&picture, "picture", "", "`file` for a PNG of the tree with everybody's screen; - is standard output")
	return cmd
}

func (a *group) tree(ctx context.Context, picture string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	t, err := c.Tree(ctx)
	if err != nil {
		return err
	}
	if picture != "" {
		return a.paint(ctx, c, t, picture)
	}
	return a.Print(t, func(w io.Writer) {
		rows := [][]string{{"NAME", "ID", "STATE", "MEMORY PRIVATE", "SHARED", "DISK PRIVATE", "AGE"}}
		for _, b := range draw(t.Nodes) {
			n := b.node
			rows = append(rows, []string{
				b.lines + nodeName(n), nodeID(n), nodeState(n),
				size(n.MemoryPrivate), size(n.MemoryShared), size(n.DiskPrivate), show.Ago(a.Now(), n.Created),
			})
		}
		show.Table(w, rows...)
	})
}

func nodeName(n api.Node) string {
	switch {
	case n.Name != "":
		return n.Name
	case n.Kind == "snapshot":
		return "(boot)"
	default:
		return nodeID(n)
	}
}

func nodeID(n api.Node) string {
	if n.Kind == "image" {
		return show.Digest(n.ID)
	}
	return n.ID
}

func nodeState(n api.Node) string {
	switch {
	case n.Gone && n.Kind == "snapshot" && n.MemoryPrivate+n.DiskPrivate > 0:
		return "removed, needed"
	case n.Gone:
		return "removed"
	case n.State != "":
		return n.State
	case n.NotParked != "":
		return n.Kind + ", not parked"
	default:
		return n.Kind
	}
}

func size(n int64) string {
	if n == 0 {
		return "-"
	}
	return show.Bytes(n)
}

// branch is a node with the lines that lead to it.
type branch struct {
	lines string
	depth int
	node  api.Node
}

// draw puts every node below its parent, older ones first. A node whose parent
// is not among them is a root; so is the first of a ring, which no server
// should send.
func draw(nodes []api.Node) []branch {
	d := drawing{below: map[string][]api.Node{}, done: map[string]bool{}}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.ID] = true
	}
	nodes = slices.SortedStableFunc(slices.Values(nodes), func(x, y api.Node) int { return x.Created.Compare(y.Created) })
	var roots []api.Node
	for _, n := range nodes {
		if n.Parent == "" || !known[n.Parent] {
			roots = append(roots, n)
			continue
		}
		d.below[n.Parent] = append(d.below[n.Parent], n)
	}
	for _, n := range append(roots, nodes...) {
		d.add(n, branch{}, "")
	}
	return d.out
}

type drawing struct {
	below map[string][]api.Node
	done  map[string]bool
	out   []branch
}

// add draws a node at a branch, and what is below it behind rest.
func (d *drawing) add(n api.Node, at branch, rest string) {
	if d.done[n.ID] {
		return
	}
	d.done[n.ID] = true
	at.node = n
	d.out = append(d.out, at)
	children := d.below[n.ID]
	for i, child := range children {
		if i == len(children)-1 {
			d.add(child, branch{lines: rest + "└─ ", depth: at.depth + 1}, rest+"   ")
			continue
		}
		d.add(child, branch{lines: rest + "├─ ", depth: at.depth + 1}, rest+"│  ")
	}
}
