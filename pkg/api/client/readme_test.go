package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// tour is the example of the README, word for word.
//
// readme: begin
func tour(ctx context.Context, address, tokenFile string, out io.Writer) (err error) {
	c, err := client.New(address, client.WithTokenFile(tokenFile))
	if err != nil {
		return err
	}
	desk, err := c.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce"}, client.Until(api.StageDrawn))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, desk.Delete(ctx)) }()

	res, err := desk.Exec(ctx, "uname") // res.Stdout, res.ExitCode
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "guest: %s", res.Stdout)
	if err := desk.Click(ctx, 640, 400); err != nil {
		return err
	}
	if err := desk.Type(ctx, "hello"); err != nil {
		return err
	}
	shot, err := desk.Screenshot(ctx) // shot.Data is a PNG
	if err != nil {
		return err
	}
	fmt.Fprintln(out, shot.Width, shot.Height)

	tries, err := desk.Fork(ctx, api.Fork{Count: 5}, client.Until(api.StageDrawn))
	if err != nil {
		return err
	}
	for _, try := range tries { // each goes on from where desk stands
		defer func() { err = errors.Join(err, try.Delete(ctx)) }()
	}
	snap, err := desk.Snapshot(ctx, "tour") // kept: api.CreateDesktop{Snapshot: "tour"} clones it
	if err != nil {
		return err
	}
	return c.Snapshots().Remove(ctx, snap.ID) // until it is removed
}

// readme: end

// The example of the README: it leaves nothing behind.
func Example_readme() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	file, err := os.CreateTemp("", "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Cleanup(func() { _ = os.Remove(file.Name()) })
	fmt.Fprintln(file, clienttest.Token)
	ctx := context.Background()
	fmt.Println(tour(ctx, s.URL, file.Name(), os.Stdout))
	desktops, err := c.Desktops().List(ctx, client.Filter{})
	fmt.Println(len(desktops), err)
	snapshots, err := c.Snapshots().List(ctx)
	fmt.Println(len(snapshots), err)
	// Output:
	// guest: Linux
	// 1280 800
	// <nil>
	// 0 <nil>
	// 0 <nil>
}

// TestReadme: the README shows what is compiled and run here.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "// readme: begin\n")
	code, _, ok := strings.Cut(rest, "\n// readme: end\n")
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !ok || !bytes.Contains(readme, []byte("```go\n"+code+"```\n")) {
		t.Error("the README's Go example is another one")
	}
}
