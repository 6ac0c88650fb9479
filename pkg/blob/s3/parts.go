package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/blob"
)

// partsAtOnce is how many parts of one blob are on their way.
const partsAtOnce = 3

// putParts uploads in parts. An upload that fails leaves none behind: its parts
// on their way are ended first, and what arrives late is looked for again.
func (s *Store) putParts(ctx context.Context, name string, body io.ReaderAt, size int64, opts minio.PutObjectOptions) error {
	id, err := s.core.NewMultipartUpload(ctx, s.conf.Bucket, name, minio.PutObjectOptions{ContentType: opts.ContentType})
	if err != nil {
		return err
	}
	parts, err := s.sendParts(ctx, name, id, body, size)
	if err == nil {
		_, err = s.core.CompleteMultipartUpload(ctx, s.conf.Bucket, name, id, parts, opts)
	}
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second+s.conf.AbortWait)
	defer cancel()
	if abortErr := s.abort(ctx, name, id); abortErr != nil {
		// The janitor has it later; what counts for the caller is err.
		return fmt.Errorf("%w (abort its upload: %v)", err, abortErr) //nolint:errorlint // one class of error
	}
	return err
}

func (s *Store) sendParts(ctx context.Context, name, id string, body io.ReaderAt, size int64) ([]minio.CompletePart, error) {
	const most = 10_000
	step := max(s.conf.PartSize, (size+most-1)/most)
	parts := make([]minio.CompletePart, (size+step-1)/step)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(partsAtOnce)
	for i := range parts {
		all.Go(func() error {
			off := int64(i) * step
			n := min(step, size-off)
			sum, err := digest(ctx, body, off, n)
			if err != nil {
				return err
			}
			p, err := s.core.PutObjectPart(ctx, s.conf.Bucket, name, id, i+1, io.NewSectionReader(body, off, n), n, minio.PutObjectPartOptions{Sha256Hex: sum})
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: p.ETag}
			return err
		})
	}
	return parts, all.Wait()
}

// abort ends an upload whose requests have all returned. A part that the server
// was still taking may outlive the abort, so it waits, lists and aborts again.
func (s *Store) abort(ctx context.Context, name, id string) error {
	err := s.abortOnce(ctx, name, id)
	for range 3 {
		select {
		case <-time.After(s.conf.AbortWait):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
		left := 0
		err = s.uploads(ctx, name, func(u minio.ObjectMultipartInfo) error {
			if u.UploadID != id {
				return nil
			}
			left++
			return s.abortOnce(ctx, name, id)
		})
		if err == nil && left == 0 {
			return nil
		}
	}
	if err == nil {
		err = errors.New("the server still lists it")
	}
	return err
}

func (s *Store) abortOnce(ctx context.Context, name, id string) error {
	err := s.core.AbortMultipartUpload(ctx, s.conf.Bucket, name, id)
	var r minio.ErrorResponse
	if errors.As(err, &r) && r.Code == "NoSuchUpload" {
		return nil
	}
	return err
}

// Clean aborts uploads of keys below prefix that began longer than age ago, by
// the server's clock against this host's, and gives their number.
func (s *Store) Clean(ctx context.Context, prefix string, age time.Duration) (int, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return 0, err
	}
	before, n := time.Now().Add(-age), 0
	err := s.uploads(ctx, s.conf.Prefix+prefix, func(u minio.ObjectMultipartInfo) error {
		if u.Initiated.After(before) {
			return nil
		}
		n++
		return s.abortOnce(ctx, u.Key, u.UploadID)
	})
	if err != nil {
		return n, fmt.Errorf("abort abandoned uploads: %w", fault("list", prefix, err))
	}
	return n, nil
}

// uploads calls fn for each upload of names that begin with prefix.
func (s *Store) uploads(ctx context.Context, prefix string, fn func(minio.ObjectMultipartInfo) error) error {
	for key, id := "", ""; ; {
		page, err := s.core.ListMultipartUploads(ctx, s.conf.Bucket, prefix, key, id, "", 1000)
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if !strings.HasPrefix(u.Key, prefix) {
				continue
			}
			if err := fn(u); err != nil {
				return err
			}
		}
		if !page.IsTruncated || page.NextKeyMarker == "" {
			return nil
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}
