package desktops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/deskfork/deskfork/internal/sheet"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// paint writes a picture of a tree. A node without a screen is a box.
func (a *group) paint(ctx context.Context, c *client.Client, t api.Tree, file string) error {
	branches := draw(t.Nodes)
	nodes := make([]sheet.Node, len(branches))
	for i, b := range branches {
		n := b.node
		nodes[i] = sheet.Node{Depth: b.depth, Picture: sheet.Picture{
			Title: nodeName(n),
			Note:  fmt.Sprintf("%s, its own: %s memory, %s disk", nodeState(n), size(n.MemoryPrivate), size(n.DiskPrivate)),
		}}
		if n.Kind != "desktop" || n.Gone {
			continue
		}
		shot, err := c.Desktop(n.ID).Screenshot(ctx)
		switch problem := new(api.Error); {
		case err == nil:
			nodes[i].PNG = shot.Data
		case !errors.As(err, &problem):
			return err
		} // one that rests, starts or has ended just now has no screen
	}
	var out bytes.Buffer
	if err := sheet.Tree(&out, nodes); err != nil {
		return err
	}
	if file == "-" {
		_, err := a.Out.Write(out.Bytes())
		return err
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("save the picture: %w", err)
	}
	return nil
}
