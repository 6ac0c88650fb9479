package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/blob/s3"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// Where credentials of S3 come from. They are in no flag: every user of a host
// sees those.
const (
	envAccessKey = "AWS_ACCESS_KEY_ID"
	envSecretKey = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // the name of a variable
	envRegion    = "AWS_REGION"
)

// blobFlags say where checkpoints lie.
type blobFlags struct {
	place, endpoint, credentials, key string
	plain                             bool
}

func (f *blobFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.place, "blobs", "", "where checkpoints lie: a `directory`, or s3://BUCKET/PREFIX; with --blob-key, runtime checkpoints too (default: blobs in the data directory)")
	fl.StringVar(&f.endpoint, "s3-endpoint", "s3.amazonaws.com", "`host` or host:port of the S3 server")
	fl.BoolVar(&f.plain, "s3-plain", false, "speak HTTP with the S3 server, not HTTPS")
	fl.StringVar(&f.credentials, "s3-credentials", "", "`file` with "+envAccessKey+"=… and "+envSecretKey+"=… (default: the environment)")
	fl.StringVar(&f.key, "blob-key", "", "`file` with age identities that checkpoints are encrypted with; the first encrypts, all decrypt (default: they are not encrypted)")
}

// shared says that other hosts may have the store, and that nobody without the key
// can read what is in it: memory of desktops goes nowhere else.
func (f *blobFlags) shared() bool { return f.place != "" && f.key != "" }

// open opens the store; end closes it.
func (f *blobFlags) open(ctx context.Context, dataDir string) (b workspaces.Blobs, end func() error, err error) {
	store, end, err := f.store(ctx, dataDir)
	if err != nil {
		return b, nil, fmt.Errorf("open blob store: %w", err)
	}
	b.Objects = store
	if f.key == "" {
		return b, end, nil
	}
	file, err := os.Open(f.key)
	if err != nil {
		return b, nil, errors.Join(fmt.Errorf("--blob-key: %w", err), end())
	}
	defer file.Close()
	sealed, err := seal.New(store, file)
	if err != nil {
		return b, nil, errors.Join(fmt.Errorf("--blob-key %s: %w", f.key, err), end())
	}
	return workspaces.Blobs{Objects: sealed, Key: sealed.Key()}, end, nil
}

func (f *blobFlags) store(ctx context.Context, dataDir string) (blob.Store, func() error, error) {
	none := func() error { return nil }
	if !strings.HasPrefix(f.place, "s3://") {
		place := f.place
		if place == "" {
			place = dataDir + "/" + workspaces.BlobsDir
		}
		s, err := dir.Open(place)
		if err != nil {
			return nil, none, err
		}
		return s, s.Close, nil
	}
	u, err := url.Parse(f.place)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, none, fmt.Errorf("--blobs %q: want s3://BUCKET or s3://BUCKET/PREFIX, and nothing else", f.place)
	}
	keys, err := f.keys()
	if err != nil {
		return nil, none, err
	}
	s, err := s3.Open(ctx, s3.Config{
		Endpoint: f.endpoint, Secure: !f.plain, Region: keys[envRegion], Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"),
		AccessKey: keys[envAccessKey], SecretKey: keys[envSecretKey],
	})
	if err != nil {
		return nil, none, err
	}
	return retry.New(s, retry.Config{}), none, nil
}

// keys reads the credentials.
func (f *blobFlags) keys() (map[string]string, error) {
	keys := map[string]string{
		envAccessKey: os.Getenv(envAccessKey), envSecretKey: os.Getenv(envSecretKey), envRegion: os.Getenv(envRegion),
	}
	if f.credentials != "" {
		text, err := os.ReadFile(f.credentials)
		if err != nil {
			return nil, fmt.Errorf("--s3-credentials: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				keys[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
	}
	if keys[envAccessKey] == "" || keys[envSecretKey] == "" {
		return nil, fmt.Errorf("no credentials for S3: set %s and %s, or name a file with --s3-credentials", envAccessKey, envSecretKey)
	}
	return keys, nil
}
