package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// bench is what ends with an example.
type bench struct{ undo []func() }

func (b *bench) Cleanup(f func()) { b.undo = append(b.undo, f) }

func (b *bench) close() {
	for _, f := range b.undo {
		f()
	}
}

// connect stands for client.New with the address and token file of a daemon:
//
//	client.New("http://127.0.0.1:7717", client.WithTokenFile("/var/lib/deskfork/token"))
func connect(b *bench) (*client.Client, *clienttest.Server) {
	s := clienttest.New(b)
	c, err := client.New(s.URL, client.WithToken(clienttest.Token))
	if err != nil {
		b.Cleanup(func() { fmt.Fprintln(os.Stdout, err) }) // no example expects it
	}
	return c, s
}

// From nothing to the first actions on a desktop.
func ExampleClient() {
	var b bench
	defer b.close()
	c, _ := connect(&b)
	ctx := context.Background()

	d, err := c.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "demo"}, client.Until(api.StageDrawn))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := d.Exec(ctx, "uname")
	fmt.Printf("%s%v\n", res.Stdout, err)
	shot, err := d.Screenshot(ctx)
	fmt.Println(shot.MIME, shot.Width, shot.Height, err)
	fmt.Println(d.Click(ctx, 100, 200), d.Type(ctx, "Grüße 👋"), d.Key(ctx, "ctrl+s"))
	fmt.Println(d.Delete(ctx))
	// Output:
	// Linux
	// <nil>
	// image/png 1280 800 <nil>
	// <nil> <nil> <nil>
	// <nil>
}

// Errors are branched on by their code.
func ExampleClient_Desktop() {
	var b bench
	defer b.close()
	c, _ := connect(&b)
	_, err := c.Desktop("nobody").Get(context.Background())
	if problem, ok := errors.AsType[*api.Error](err); ok {
		fmt.Println(problem.Code, problem.Status, problem.Retryable)
	}
	fmt.Println(errors.Is(err, &api.Error{Code: api.CodeNotFound}))
	// Output:
	// not_found 404 false
	// true
}

// A command with streams; it outlives broken links.
func ExampleExecs_Command() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	d := c.Desktop(s.Desktop(api.CreateDesktop{}))
	status, err := d.Execs().Command(context.Background(), api.Exec{Argv: []string{"cat"}}, client.Streams{
		Stdin: strings.NewReader("over there and back\n"), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	fmt.Println(status.ExitCode, err)
	// Output:
	// over there and back
	// 0 <nil>
}

// A command that goes on by itself and is looked at again later.
func ExampleExecs_Attach() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	ctx := context.Background()
	x := c.Desktop(s.Desktop(api.CreateDesktop{})).Execs()
	started, err := x.Start(ctx, api.Exec{Argv: []string{"numbers", "3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := x.Attach(ctx, started.ID, client.Streams{Stdout: os.Stdout})
	fmt.Println(status.ExitCode, err)
	// Output:
	// 0
	// 1
	// 2
	// 0 <nil>
}

// Files are streams; directories travel as tar.
func ExampleFiles() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	ctx := context.Background()
	files := c.Desktop(s.Desktop(api.CreateDesktop{})).Files()
	info, err := files.Write(ctx, "/workspace/notes.txt", strings.NewReader("hello\n"), client.WriteOptions{Mode: 0o600})
	fmt.Printf("%s %d %#o %v\n", info.Path, info.Size, info.Mode, err)
	data, err := files.Read(ctx, "/workspace/notes.txt")
	fmt.Printf("%q %v\n", data, err)
	// Output:
	// /workspace/notes.txt 6 0600 <nil>
	// "hello\n" <nil>
}

// Several actions in one round trip.
func ExampleInput_Act() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	d := c.Desktop(s.Desktop(api.CreateDesktop{}))
	x, y := 640, 400
	reply, err := d.Input().Act(context.Background(),
		api.Action{Kind: "click", X: &x, Y: &y, Count: 2},
		api.Action{Kind: "text", Text: "report"},
		api.Action{Kind: "key", Keys: "Return"},
		api.Action{Kind: "wait", For: "still", DurationMS: 2000},
	)
	for _, r := range reply.Results {
		fmt.Println(r.Kind, r.Effect)
	}
	fmt.Println(err)
	// Output:
	// click confirmed
	// text confirmed
	// key confirmed
	// wait confirmed
	// <nil>
}

// Events as they happen; a broken link is mended unseen.
func ExampleClient_Events() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	id := s.Desktop(api.CreateDesktop{Image: "debian-xfce"})
	for event, err := range c.Events(context.Background(), client.EventOptions{Desktop: id}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(event.Seq, event.Type)
		if event.Type == "desktop.ready" {
			break
		}
	}
	// Output:
	// 1 desktop.created
	// 2 desktop.ready
}

// Any TCP port of the guest, its loopback included, as a net.Conn.
func ExampleDesktop_Dial() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	conn, err := c.Desktop(s.Desktop(api.CreateDesktop{})).Dial(context.Background(), 7)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "echo")
	buf := make([]byte, 4)
	_, err = io.ReadFull(conn, buf)
	fmt.Println(string(buf), err)
	// Output: echo <nil>
}

// Log in to a state once, then fork it: each child goes on from there alone.
func ExampleDesktop_Fork() {
	var b bench
	defer b.close()
	c, _ := connect(&b)
	ctx := context.Background()
	parent, err := c.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "shop"}, client.Until(api.StageDrawn))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = parent.Files().Write(ctx, "/workspace/cart", strings.NewReader("1 lamp\n"), client.WriteOptions{})
	fmt.Println(err)
	children, err := parent.Fork(ctx, api.Fork{Count: 2, Name: "try"}, client.Until(api.StageDrawn))
	for _, d := range children {
		cart, err := d.Files().Read(ctx, "/workspace/cart")
		fmt.Printf("%s %s %q %v\n", d.Info.Name, d.Info.Origin, cart, err)
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// try-1 fork "1 lamp\n" <nil>
	// try-2 fork "1 lamp\n" <nil>
	// <nil>
}

// A snapshot outlives its desktop, and moves to another host as one stream.
func ExampleSnapshots() {
	var b bench
	defer b.close()
	here, s := connect(&b)
	there, _ := connect(&b)
	ctx := context.Background()
	made, err := here.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce"})).Snapshot(ctx, "logged-in")
	fmt.Println(made.Name, err)

	from, to := io.Pipe()
	go func() { to.CloseWithError(here.Snapshots().Export(ctx, "logged-in", to)) }()
	moved, err := there.Snapshots().Import(ctx, "logged-in", from)
	fmt.Println(moved.Name, err)

	d, err := there.Desktops().Create(ctx, api.CreateDesktop{Snapshot: "logged-in"}, client.Until(api.StageDrawn))
	fmt.Println(d.Info.Origin, d.Info.State, err)
	// Output:
	// logged-in <nil>
	// logged-in <nil>
	// snapshot ready <nil>
}

// A desktop that nobody uses rests on disk, and goes on where it stood.
func ExampleDesktop_Suspend() {
	var b bench
	defer b.close()
	c, s := connect(&b)
	ctx := context.Background()
	d := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce"}))
	info, err := d.SetPolicy(ctx, api.Policy{IdleS: 600, IdleAction: api.IdleSuspend})
	fmt.Println(info.Policy.IdleS, err)
	info, err = d.Suspend(ctx) // or at once
	fmt.Println(info.State, err)
	info, err = d.Resume(ctx)
	fmt.Println(info.State, info.Origin, err)
	// Output:
	// 600 <nil>
	// suspended <nil>
	// ready resume <nil>
}
