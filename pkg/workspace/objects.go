package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Info is what the store knows of an object.
type Info = struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Objects is the store as workspaces use it. Keys are lower case, segments with
// slashes between. What a method has done is visible to calls that start after
// it returned.
type Objects interface {
	// Put writes an object whole or not at all. A taken key is fs.ErrExist.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64) error
	// Get reads n bytes from off, all when n is negative; fs.ErrNotExist.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Stat is fs.ErrNotExist when there is no object.
	Stat(ctx context.Context, key string) (Info, error)
	// List gives up to limit (at most 1000) objects in the order of keys, from
	// the first one after the key after; a page that is not full is the last.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete of what is not there is no error.
	Delete(ctx context.Context, key string) error
}

// maxPage is the most that List gives at once.
const maxPage = 1000

// All lists every object below prefix, in the order of keys, and stops at the first
// error of fn.
func All(ctx context.Context, o Objects, prefix string, fn func(Info) error) error {
	for after := ""; ; {
		page, err := o.List(ctx, prefix, after, maxPage)
		if err != nil {
			return err
		}
		for _, i := range page {
			if err := fn(i); err != nil {
				return err
			}
			after = i.Key
		}
		if len(page) < maxPage {
			return nil
		}
	}
}

// Mark puts an object that says all by its name, which is the caller's alone: one that
// is there is its own, whose answer was lost.
func Mark(ctx context.Context, o Objects, key string) error {
	err := o.Put(ctx, key, strings.NewReader(""), 0)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Where things lie in the store.
const (
	ManifestPrefix = "checkpoints/" // + workspace/checkpoint
	PackPrefix     = "packs/"       // + workspace/checkpoint/number-hash
	HoldPrefix     = "holds/"       // + workspace/checkpoint/holder.until
	TombPrefix     = "tombs/"       // + workspace/checkpoint/sweep
	// PublishedPrefix + workspace/checkpoint: it has counted, in whatever database.
	PublishedPrefix = "published/"
)

// MarkPublished notes in the store that r was published, so that the sweeps of all
// hosts count it as history. Idempotent.
func MarkPublished(ctx context.Context, o Objects, r Ref) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := Mark(ctx, o, PublishedPrefix+r.String()); err != nil {
		return fmt.Errorf("mark checkpoint %s as published: %w", r, err)
	}
	return nil
}

// ManifestKey is where the manifest of r lies.
func ManifestKey(r Ref) string { return ManifestPrefix + r.String() }

// PackKey is where a pack lies that came with r.
func PackKey(r Ref, number int, sum Hash) string {
	return fmt.Sprintf("%s%s/%05d-%s", PackPrefix, r, number, sum)
}

// RefOf is the checkpoint in the key of one of its objects, and what comes
// behind it.
func RefOf(key, prefix string) (r Ref, rest string, err error) {
	part := strings.SplitN(strings.TrimPrefix(key, prefix), "/", 3)
	if !strings.HasPrefix(key, prefix) || len(part) < 2 {
		return r, "", fmt.Errorf("%w: key %.600q", ErrInvalid, key)
	}
	r = Ref{ID(part[0]), CheckpointID(part[1])}
	if len(part) == 3 {
		rest = part[2]
	}
	return r, rest, r.Validate()
}

// Hold keeps sweeps from dropping r until the given time, for holder, which is a
// name like those of checkpoints and chosen by the caller, so that a call that
// is repeated is the same hold. Holding again with a later time extends it.
func Hold(ctx context.Context, o Objects, r Ref, holder string, until time.Time) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if !validName(holder) {
		return fmt.Errorf("%w: holder %.140q", ErrInvalid, holder)
	}
	if err := Mark(ctx, o, holdKey(r, holder)+strconv.FormatInt(until.Unix(), 10)); err != nil {
		return fmt.Errorf("hold checkpoint %s: %w", r, err)
	}
	return nil
}

// Release ends the hold of holder on r. A hold on a new checkpoint is released
// when it has been published, or never will be.
func Release(ctx context.Context, o Objects, r Ref, holder string) error {
	err := All(ctx, o, holdKey(r, holder), func(i Info) error { return o.Delete(ctx, i.Key) })
	if err != nil {
		return fmt.Errorf("release checkpoint %s: %w", r, err)
	}
	return nil
}

func holdKey(r Ref, holder string) string { return HoldPrefix + path.Join(r.String(), holder) + "." }

// HeldUntil reads the end of a hold from its key. What cannot be read holds for
// ever.
func HeldUntil(key string) time.Time {
	_, until, _ := strings.Cut(path.Base(key), ".")
	unix, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		return time.Unix(1<<40, 0)
	}
	return time.Unix(unix, 0)
}

// Usable says whether something can be built on r: its manifest is there and no
// sweep has put a tomb on it. The answer binds sweeps only if the caller has made
// its claim visible before: a hold, or a manifest that needs r.
func Usable(ctx context.Context, o Objects, r Ref) error {
	if err := Condemned(ctx, o, r); err != nil {
		return err
	}
	_, err := o.Stat(ctx, ManifestKey(r))
	return missing(ManifestKey(r), err)
}

// Condemned is ErrCondemned when a sweep has put a tomb on r.
func Condemned(ctx context.Context, o Objects, r Ref) error {
	tombs, err := o.List(ctx, TombPrefix+r.String()+"/", "", 1)
	if err == nil && len(tombs) > 0 {
		err = ErrCondemned
	}
	if err != nil {
		return fmt.Errorf("look for tombs of %s: %w", r, err)
	}
	return nil
}

// Load reads the manifest of r. It is a DamageError when the manifest is missing
// or not what was written.
func Load(ctx context.Context, o Objects, r Ref) (*Manifest, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	key := ManifestKey(r)
	body, err := o.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, missing(key, err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, MaxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", key, err)
	}
	m, err := Decode(data)
	if err == nil && m.Ref != r {
		err = fmt.Errorf("it is that of %s", m.Ref)
	}
	if err != nil {
		return nil, &DamageError{Key: key, What: err.Error(), Err: ErrCorrupt}
	}
	return m, nil
}

func missing(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &DamageError{Key: key, Err: ErrMissing}
	}
	return err
}
