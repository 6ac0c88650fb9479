package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/image/build"
)

type buildFlags struct {
	guestd, helper   string
	mirror, security string
	cache, log       string
	force            bool
}

func buildCmd(g *cli.Globals) *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build RECIPE",
		Short: "Build an image from a recipe's directory",
		Long: `Builds an image into the data directory, in this process: no server is needed.
When the image of this very recipe is there already, it says so and is done. It
tells each stage with its time on standard error, and prints the digest.`,
		Example: `  vmhost image build images/debian-xfce
  vmhost image build images/debian-xfce --force --mirror http://deb.example.org/debian`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.build(cmd.Context(), g, given[0], streams{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.guestd, "guestd", beside("guestd"), "the guest's daemon, a `file`")
	fl.StringVar(&f.helper, "guest-helper", beside("guest-helper"), "the guest's helper, a `file`")
	fl.StringVar(&f.mirror, "mirror", "", "Debian mirror instead of the recipe's, a `URL`")
	fl.StringVar(&f.security, "security-mirror", "", "security mirror instead of the recipe's, a `URL`")
	fl.StringVar(&f.cache, "cache-dir", "", "`directory` that keeps fetched packages (default: cache in the data directory)")
	fl.StringVar(&f.log, "log", "", "`file` for all that the tools print (default: build.log in the data directory)")
	fl.BoolVar(&f.force, "force", false, "build although the image is there")
	return cmd
}

type streams struct{ out, err io.Writer }

// beside is a program in the directory of this one.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

func (f buildFlags) build(ctx context.Context, g *cli.Globals, dir string, to streams) (err error) {
	recipe, err := build.Load(dir)
	if err != nil {
		return fault.From(err)
	}
	data, err := filepath.Abs(g.DataDir)
	if err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	openUmask()
	if err := makeDir(data, lockFile, host.DatabaseName, imagesDir); err != nil {
		return err
	}
	store, err := image.Open(image.Config{Dir: filepath.Join(data, imagesDir), RemoveAll: build.RemoveAll})
	if err != nil {
		return fault.From(err)
	}
	if f.log == "" {
		f.log = filepath.Join(data, "build.log")
	}
	if f.cache == "" {
		f.cache = filepath.Join(data, "cache")
	}
	log := &lazyFile{name: f.log}
	defer closing(&err, log.Close)
	b := build.New(build.Config{
		Store: store, CacheDir: f.cache, Log: log, Progress: progress(to.err, f.log), Env: proxies(),
		Logger: slog.New(slog.NewTextHandler(to.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	res, err := b.Build(ctx, build.Request{
		Recipe: recipe, Guest: build.GuestBinaries{Guestd: f.guestd, Helper: f.helper},
		Mirrors: build.Mirrors{Debian: f.mirror, Security: f.security}, Force: f.force,
	})
	if err != nil {
		return staged(err)
	}
	if !res.Built {
		fmt.Fprintf(to.err, "image %s is there already\n", recipe.Name)
	}
	if g.JSON {
		return json.NewEncoder(to.out).Encode(map[string]any{
			"digest": res.Manifest.Digest, "name": recipe.Name, "built": res.Built,
		})
	}
	fmt.Fprintln(to.out, res.Manifest.Digest)
	return nil
}

// staged gives a failed build its code and the stage that failed.
func staged(err error) *api.Error {
	e := fault.From(err)
	if failed, ok := errors.AsType[*build.StageError](err); ok {
		e.Stage = string(failed.Stage)
	}
	return e
}

// progress tells each stage as it begins, with the time that it takes, and as it
// ends, with the time that it took.
func progress(w io.Writer, log string) func(build.Progress) {
	stages := build.Stages()
	var sum time.Duration
	for _, s := range stages {
		sum += s.Expected()
	}
	first := true
	return func(p build.Progress) {
		if first {
			first = false
			fmt.Fprintf(w, "building in %d stages, about %.0f min; all that the tools say is in %s\n", len(stages), sum.Minutes(), log)
		}
		n := 0
		for i, s := range stages {
			if s == p.Stage {
				n = i + 1
			}
		}
		if p.Done {
			fmt.Fprintf(w, "[%d/%d] %-10s done in %.1f min\n", n, len(stages), p.Stage, p.Elapsed.Minutes())
			return
		}
		fmt.Fprintf(w, "[%d/%d] %-10s about %.1f min\n", n, len(stages), p.Stage, p.Expected.Minutes())
	}
}

// proxies are the settings of the environment that fetching packages needs.
func proxies() []string {
	var env []string
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// lazyFile is made when there is something to write: a build that finds its
// image leaves the log of the last one.
type lazyFile struct {
	name string
	f    *os.File
}

func (l *lazyFile) Write(p []byte) (int, error) {
	if l.f == nil {
		f, err := os.Create(l.name)
		if err != nil {
			return 0, fmt.Errorf("make build log: %w", err)
		}
		l.f = f
	}
	return l.f.Write(p)
}

func (l *lazyFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, os.ErrNotExist)
}
