package cli

import (
	"context"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// control are the flags of calls that need the control lease.
type control struct {
	holder string
	epoch  uint64
}

func (c *control) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.holder, "holder", "", "`who` sends (default: the token)")
	cmd.Flags().Uint64Var(&c.epoch, "epoch", 0, "`number` of the control lease (default: the present one)")
}

func (c *control) option() client.Option { return client.WithHolder(c.holder, c.epoch) }

// act sends one batch and prints what became of it.
func (a *app) act(ctx context.Context, ref string, who *control, actions ...api.Action) error {
	d, err := a.Desktop(ref, who.option())
	if err != nil {
		return err
	}
	reply, err := d.Input().Act(ctx, actions...)
	if err != nil {
		return err
	}
	return a.Print(reply, func(w io.Writer) {
		for _, r := range reply.Results {
			if r.Effect != api.EffectConfirmed {
				fmt.Fprintf(w, "%s: %s\n", r.Kind, r.Effect)
			}
		}
	})
}

// verb is a command on a desktop that sends input.
type verb struct {
	use, short, long, example string
	least, most               int // arguments behind D; most < 0: no limit
}

// inputCmd makes a command of a verb and what it sends.
func (a *app) inputCmd(v verb, actions func(given []string) ([]api.Action, error)) *cobra.Command {
	var who control
	most := v.most + 1
	if v.most < 0 {
		most = -1
	}
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example,
		Args: command.Args(v.least+1, most), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			list, err := actions(given[1:])
			if err != nil {
				return err
			}
			return a.act(cmd.Context(), given[0], &who, list...)
		},
	}
	who.flags(cmd)
	return cmd
}

const pixels = "Points are pixels of the screen; 0 0 is its top left corner."

func (a *app) clickCmd() *cobra.Command {
	var button string
	var count int
	var mods []string
	cmd := a.inputCmd(verb{
		use: "click D X Y", short: "Click at a point", long: "Moves the pointer to a point and clicks. " + pixels,
		example: `  vmhost click first 640 400
  vmhost click first 640 400 --count 2
  vmhost click first 640 400 --button right --mods ctrl,shift`,
		least: 2, most: 2,
	}, func(given []string) ([]api.Action, error) {
		n, err := parse.Ints(given...)
		if err != nil {
			return nil, err
		}
		return []api.Action{{Kind: "click", X: &n[0], Y: &n[1], Button: button, Count: count, Mods: mods}}, nil
	})
	cmd.Flags().StringVar(&button, "button", "left", "left, middle, right, back or forward")
	cmd.Flags().IntVar(&count, "count", 1, "how many clicks; 2 is a double click")
	cmd.Flags().StringSliceVar(&mods, "mods", nil, "`keys` held meanwhile, such as ctrl,shift")
	command.OneOf(cmd, "button", "left", "middle", "right", "back", "forward")
	return cmd
}

func (a *app) moveCmd() *cobra.Command {
	return a.inputCmd(verb{
		use: "move D X Y", short: "Move the pointer", long: "Moves the pointer to a point. " + pixels,
		example: "  vmhost move first 640 400", least: 2, most: 2,
	}, func(given []string) ([]api.Action, error) {
		n, err := parse.Ints(given...)
		if err != nil {
			return nil, err
		}
		return []api.Action{{Kind: "move", X: &n[0], Y: &n[1]}}, nil
	})
}

func (a *app) dragCmd() *cobra.Command {
	var button string
	var took time.Duration
	cmd := a.inputCmd(verb{
		use: "drag D X1 Y1 X2 Y2 [X Y]...", short: "Drag along a path",
		long: "Presses a button at the first point, moves through the others and releases it at\nthe last. " + pixels,
		example: `  vmhost drag first 100 100 400 300
  vmhost drag first 100 100 200 100 200 200 --duration 1s`,
		least: 4, most: -1,
	}, func(given []string) ([]api.Action, error) {
		path, err := parse.Points(given)
		if err != nil {
			return nil, err
		}
		return []api.Action{{Kind: "drag", Path: path, Button: button, DurationMS: int(took.Milliseconds())}}, nil
	})
	cmd.Flags().StringVar(&button, "button", "left", "left, middle or right")
	cmd.Flags().DurationVar(&took, "duration", 0, "time for the path (default: the server's)")
	command.OneOf(cmd, "button", "left", "middle", "right")
	return cmd
}

func (a *app) scrollCmd() *cobra.Command {
	var dx, dy int
	cmd := a.inputCmd(verb{
		use: "scroll D X Y", short: "Turn the wheel at a point",
		long: "Moves the pointer to a point and turns the wheel: --dy steps down, --dx steps to\nthe right, negative ones up and left. " + pixels,
		example: `  vmhost scroll first 640 400 --dy 5
  vmhost scroll first 640 400 --dx=-2`,
		least: 2, most: 2,
	}, func(given []string) ([]api.Action, error) {
		n, err := parse.Ints(given...)
		if err != nil {
			return nil, err
		}
		if dx == 0 && dy == 0 {
			return nil, command.Invalid("say how far: --dy, --dx or both")
		}
		return []api.Action{{Kind: "scroll", X: &n[0], Y: &n[1], DX: dx, DY: dy}}, nil
	})
	cmd.Flags().IntVar(&dx, "dx", 0, "`steps` to the right")
	cmd.Flags().IntVar(&dy, "dy", 0, "`steps` down")
	return cmd
}

func (a *app) keyCmd() *cobra.Command {
	var repeat int
	var hold time.Duration
	var rate int
	cmd := a.inputCmd(verb{
		use: "key D CHORD...", short: "Press keys",
		long: `Presses chords one after the other. Keys are named as in X11, in browsers or
plainly, in any case: Return, ArrowLeft, ctrl, F5, a.`,
		example: `  vmhost key first ctrl+s
  vmhost key first ctrl+a Delete
  vmhost key first Tab --repeat 3
  vmhost key first Right --hold 2s --rate 30`,
		least: 1, most: -1,
	}, func(given []string) ([]api.Action, error) {
		list := make([]api.Action, 0, len(given))
		for _, chord := range given {
			if hold > 0 {
				list = append(list, api.Action{Kind: "hold", Keys: chord, DurationMS: int(hold.Milliseconds()), PerSecond: rate})
				continue
			}
			list = append(list, api.Action{Kind: "key", Keys: chord, Repeat: repeat})
		}
		return list, nil
	})
	cmd.Flags().IntVar(&repeat, "repeat", 1, "press each chord so many times")
	cmd.Flags().DurationVar(&hold, "hold", 0, "keep each chord pressed for a time")
	cmd.Flags().IntVar(&rate, "rate", 0, "repeats per second of a held chord (default: none)")
	return cmd
}

// typeChunk is how much text one action carries, in bytes: a long text that
// fails says so before all of it was sent.
const typeChunk = 64 << 10

func (a *app) typeCmd() *cobra.Command {
	var rate int
	cmd := a.inputCmd(verb{
		use: "type D TEXT", short: "Type text",
		long: `Types text, any Unicode, where the keyboard's focus is. A - reads the text from
standard input.`,
		example: `  vmhost type first "Grüße, 你好 👋"
  vmhost type first - < letter.txt`,
		least: 1, most: 1,
	}, func(given []string) ([]api.Action, error) {
		text := given[0]
		if text == "-" {
			raw, err := io.ReadAll(a.In)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			text = string(raw)
		}
		if !utf8.ValidString(text) {
			return nil, command.Invalid("text is not UTF-8")
		}
		var list []api.Action
		for _, part := range chunks(text, typeChunk) {
			list = append(list, api.Action{Kind: "text", Text: part, PerSecond: rate})
		}
		if list == nil {
			return nil, command.Invalid("text is empty")
		}
		return list, nil
	})
	cmd.Flags().IntVar(&rate, "rate", 0, "characters per second (default: the server's)")
	return cmd
}

// chunks cuts text into parts of at most size bytes, between characters.
func chunks(text string, size int) []string {
	var parts []string
	for len(text) > size {
		n := size
		for !utf8.RuneStart(text[n]) {
			n--
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}
