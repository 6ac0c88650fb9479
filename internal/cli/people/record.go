package people

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *app) recordCmd() *cobra.Command {
	var out string
	actions := []string{"ls", "start", "stop", "get", "rm"}
	cmd := &cobra.Command{
		Use: "record D [start|stop|ls|get|rm] [RECORDING]", Short: "Record what is seen on a desktop",
		Long: `start records the screen until stop, or until the desktop rests or is gone, the
server ends, or its disk is nearly full. What agents do and who has control become
chapters; what they type is in no chapter, but seen where the screen shows it.

ls, which is the default, lists recordings; get writes one to a file, in WebM, by
default the newest; rm deletes one. The server keeps them for a time, and as much as
it was told to: the oldest go first. Those of a deleted desktop are found by its id.`,
		Example: `  vmhost record first start
  vmhost record first stop
  vmhost record first ls
  vmhost record first get -o first.webm
  vmhost record first rm r4xk2p7qmz1a`,
		Args: command.Args(1, 3),
		ValidArgsFunction: func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 1 {
				return actions, cobra.ShellCompDirectiveNoFileComp
			}
			return a.CompleteDesktops(1)(cmd, given, prefix)
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			action, id := "ls", ""
			if len(given) > 1 {
				action = given[1]
			}
			if len(given) > 2 {
				id = given[2]
			}
			return a.record(cmd.Context(), d.Recordings(), action, id, out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` that get writes, or - for standard output (default: RECORDING.webm)")
	return cmd
}

// record does one of the actions.
func (a *app) record(ctx context.Context, r *client.Recordings, action, id, out string) error {
	switch action {
	case "start", "stop":
		do := r.Start
		if action == "stop" {
			do = r.Stop
		}
		if id != "" {
			return command.Invalid("%s takes no recording: a desktop has one at a time", action)
		}
		got, err := do(ctx)
		if err != nil {
			return err
		}
		return a.Print(got, func(w io.Writer) { fmt.Fprintln(w, got.ID) })
	case "ls":
		list, err := r.List(ctx)
		if err != nil {
			return err
		}
		return a.Print(api.RecordingList{Recordings: list}, func(w io.Writer) { recordingTable(w, list) })
	case "get":
		return a.fetch(ctx, r, id, out)
	case "rm":
		if id == "" {
			return command.Invalid("rm needs the id of a recording; ls lists them")
		}
		return r.Delete(ctx, id)
	default:
		return command.Invalid("unknown action %q: want start, stop, ls, get or rm", action)
	}
}

// fetch writes a recording, the newest when none is named, to a file.
func (a *app) fetch(ctx context.Context, r *client.Recordings, id, out string) error {
	list, err := r.List(ctx)
	if err != nil {
		return err
	}
	var of *api.Recording
	for i := range list {
		if id == "" || list[i].ID == id {
			of = &list[i]
			break
		}
	}
	if of == nil {
		return api.Errorf(api.CodeNotFound, "no such recording: ls lists them")
	}
	if out == "-" {
		_, err := r.Read(ctx, of.ID, a.Out)
		return err
	}
	if out == "" {
		out = of.ID + ".webm"
	}
	f, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	n, err := r.Read(ctx, of.ID, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return a.Print(of, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", out, show.Bytes(n)) })
}

func recordingTable(w io.Writer, list []api.Recording) {
	rows := [][]string{{"RECORDING", "STATE", "BEGUN", "LENGTH", "SIZE", "PIXELS", "CHAPTERS", "BY", "ENDED BY"}}
	for _, r := range list {
		length := (time.Duration(r.DurationMS) * time.Millisecond).Round(time.Second).String()
		rows = append(rows, []string{
			r.ID, r.State, r.Begun.Format(time.RFC3339), length, show.Bytes(r.Bytes), fmt.Sprintf("%dx%d", r.Width, r.Height),
			fmt.Sprint(len(r.Chapters)), r.By, strings.ReplaceAll(r.Reason, "_", " "),
		})
	}
	show.Table(w, rows...)
}
