package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/pkg/image"
)

// Config is what a builder needs. Only Store is required.
type Config struct {
	Store    *image.Store   // best opened with RemoveAll of this package
	CacheDir string         // keeps fetched packages for the next build; "" keeps none
	Log      io.Writer      // gets all that the tools print; nil drops it
	Logger   *slog.Logger   // nil drops
	Progress func(Progress) // called from the goroutine of Build; nil for none
	Env      []string       // added to the tools' environment, such as http_proxy=…
}

// Builder builds images. Builds of one builder may run at the same time.
type Builder struct{ c Config }

// New returns a builder; it starts nothing.
func New(c Config) *Builder {
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return &Builder{c: c}
}

// Request is one image to build.
type Request struct {
	Recipe  *Recipe
	Guest   GuestBinaries
	Mirrors Mirrors
	Force   bool // build although the store has an image of this recipe
}

// Result is a built or found image.
type Result struct {
	Manifest image.Manifest
	Built    bool // false when the store had it already
}

// StageError says in which stage a build failed. It wraps image.ErrBuildFailed and the
// cause, which may be an *image.NoSpaceError or a *MissingPackageError.
type StageError struct {
	Stage Stage
	Image string // name of the recipe
	Err   error
}

// Error names image, stage and cause, with the end of the tool's output.
func (e *StageError) Error() string {
	return fmt.Sprintf("build image %s: %s: %v", e.Image, e.Stage, e.Err)
}

// Unwrap returns image.ErrBuildFailed and the cause.
func (e *StageError) Unwrap() []error { return []error{image.ErrBuildFailed, e.Err} }

// Hint is the cause's, or says what usually helps in this stage.
func (e *StageError) Hint() string {
	if h := image.Hint(e.Err); h != "" {
		return h
	}
	if e.Stage == StageBootstrap {
		return "see whether the recipe's mirror can be reached and the packages' names are right"
	}
	return "the build log has the tool's whole output"
}

// Build builds an image, or returns the one that the store has of the same recipe digest
// (see RecipeDigest). It points the recipe's name and tag at the result. When ctx ends or a
// stage fails, nothing is left behind but fetched packages; the error is a *StageError.
func (b *Builder) Build(ctx context.Context, req Request) (Result, error) {
	digest, err := RecipeDigest(req.Recipe, req.Guest)
	if err != nil {
		return Result{}, err
	}
	if !req.Force {
		m, err := b.c.Store.ByRecipe(ctx, digest)
		if err == nil {
			ref := image.Reference{Name: req.Recipe.Name, Tag: req.Recipe.Tag}
			return Result{Manifest: m}, b.c.Store.Tag(ref, m.Digest)
		}
		if !errors.Is(err, image.ErrNotFound) {
			return Result{}, err
		}
	}
	if missing := Missing(); len(missing) > 0 {
		return Result{}, &MissingPackageError{Package: missing[0]}
	}
	draft, err := b.c.Store.Draft()
	if err != nil {
		return Result{}, fmt.Errorf("build image %s: %w", req.Recipe.Name, err)
	}
	r := &run{
		Builder: b, req: req, draft: draft, began: time.Now(),
		work: draft.Path("work"), recipeDigest: digest,
		box: sandbox{log: b.c.Log, env: append([]string{"TMPDIR=" + draft.Path("work")}, b.c.Env...)},
	}
	m, err := r.stages(ctx)
	if err != nil {
		return Result{}, errors.Join(err, draft.Abort())
	}
	return Result{Manifest: m, Built: true}, nil
}

// run is one build.
type run struct {
	*Builder
	req          Request
	draft        *image.Draft
	work         string // directory for everything that is no part of the image
	began        time.Time
	recipeDigest image.Digest
	box          sandbox
	manifest     image.Manifest
}

func (r *run) root() string { return filepath.Join(r.work, "root") }

func (r *run) stages(ctx context.Context) (image.Manifest, error) {
	if err := os.Mkdir(r.work, 0o755); err != nil {
		return image.Manifest{}, fmt.Errorf("build image %s: %w", r.req.Recipe.Name, err)
	}
	steps := map[Stage]func(context.Context) error{
		StageBootstrap: r.bootstrap,
		StageCustomise: r.customise,
		StageKernel:    r.kernel,
		StagePack:      r.pack,
		StageDigest:    r.digest,
		StageSeal:      r.seal,
	}
	for _, s := range Stages() {
		if err := r.stage(ctx, s, steps[s]); err != nil {
			return image.Manifest{}, err
		}
	}
	return r.manifest, nil
}

// stage runs one stage, with progress before and after it.
func (r *run) stage(ctx context.Context, s Stage, step func(context.Context) error) error {
	began := time.Now()
	p := Progress{Stage: s, Total: began.Sub(r.began), Expected: s.Expected()}
	r.c.Progress(p)
	fmt.Fprintf(r.box.log, "== %s\n", s)
	err := ctx.Err()
	if err == nil {
		err = step(ctx)
	}
	if err != nil {
		return &StageError{Stage: s, Image: r.req.Recipe.Name, Err: r.diskFull(s, err)}
	}
	p.Done, p.Elapsed, p.Total = true, time.Since(began), time.Since(r.began)
	r.c.Progress(p)
	r.c.Logger.LogAttrs(ctx, slog.LevelInfo, "image stage done",
		slog.String("image", r.req.Recipe.Name), slog.String("stage", string(s)), slog.Duration("elapsed", p.Elapsed))
	return nil
}
