package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *app) screenshotCmd() *cobra.Command {
	var out, region string
	var opts client.ScreenshotOptions
	cmd := &cobra.Command{
		Use:   "screenshot D",
		Short: "Take a picture of the screen",
		Long: `Writes a picture of the screen to a file, or with -o - to standard output. The
format follows the file's name: .jpg and .jpeg are JPEG, all else is PNG.`,
		Example: `  vmhost screenshot first -o screen.png
  vmhost screenshot first -o - --max-width 800 | display
  vmhost screenshot first -o part.jpg --region 0,0,640x400 --quality 70`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) (err error) {
			if region != "" {
				if opts.Region, err = parse.Region(region); err != nil {
					return err
				}
			}
			if opts.Format == "" {
				opts.Format = formatOf(out)
			}
			return a.screenshot(cmd.Context(), given[0], out, opts)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "screenshot.png", "`file` to write, or - for standard output")
	f.StringVar(&opts.Format, "format", "", "png or jpeg (default: by the file's name)")
	f.IntVar(&opts.Quality, "quality", 0, "quality of JPEG, 1 to 100 (default: the server's)")
	f.StringVar(&region, "region", "", "a part of the screen as `X,Y,WIDTHxHEIGHT`")
	f.IntVar(&opts.MaxWidth, "max-width", 0, "scale down to so many `pixels`")
	f.BoolVar(&opts.Cursor, "cursor", false, "draw the pointer into it")
	f.StringVar(&opts.Source, "source", "", "who takes it: host or guest (default: the better one)")
	command.OneOf(cmd, "format", "png", "jpeg")
	command.OneOf(cmd, "source", "host", "guest")
	return cmd
}

func formatOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jpg", ".jpeg":
		return "jpeg"
	default:
		return "png"
	}
}

func (a *app) screenshot(ctx context.Context, ref, out string, opts client.ScreenshotOptions) error {
	d, err := a.Desktop(ref)
	if err != nil {
		return err
	}
	shot, err := d.Screen().Screenshot(ctx, opts)
	if err != nil {
		return err
	}
	if out == "-" {
		if _, err := a.Out.Write(shot.Data); err != nil {
			return fmt.Errorf("write standard output: %w", err)
		}
		return nil
	}
	if err := writePicture(out, shot.Data); err != nil {
		return err
	}
	return a.Print(map[string]any{
		"file": out, "mime": shot.MIME, "width": shot.Width, "height": shot.Height,
		"scale": shot.Scale, "seq": shot.Seq, "bytes": len(shot.Data),
	}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %dx%d, %s\n", out, shot.Width, shot.Height, show.Bytes(int64(len(shot.Data))))
	})
}

func writePicture(name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

func (a *app) clipboardCmd() *cobra.Command {
	var who control
	var mime string
	cmd := &cobra.Command{
		Use:   "clipboard D [TEXT]",
		Short: "Print or set the clipboard",
		Long: `Prints the clipboard, or sets it to a text; a - reads the content from standard
input. With --type it is text/html or image/png instead of text/plain.`,
		Example: `  vmhost clipboard first
  vmhost clipboard first "to be pasted"
  vmhost clipboard first --type image/png - < picture.png
  vmhost clipboard first --type image/png > picture.png`,
		Args: command.Args(1, 2), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0], who.option())
			if err != nil {
				return err
			}
			if len(given) == 2 {
				return a.setClipboard(cmd.Context(), d, mime, given[1])
			}
			data, err := d.Clipboard().Get(cmd.Context(), mime)
			if err != nil {
				return err
			}
			return a.Print(map[string]any{"type": mime, "data": data}, func(w io.Writer) { _, _ = w.Write(data) })
		},
	}
	who.flags(cmd)
	cmd.Flags().StringVar(&mime, "type", "text/plain", "text/plain, text/html or image/png")
	command.OneOf(cmd, "type", "text/plain", "text/html", "image/png")
	return cmd
}

func (a *app) setClipboard(ctx context.Context, d *client.Desktop, mime, text string) error {
	data := []byte(text)
	if text == "-" {
		var err error
		if data, err = io.ReadAll(a.In); err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
	return d.Clipboard().Set(ctx, mime, data)
}
