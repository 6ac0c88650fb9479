package s3

import (
	"context"

	"github.com/minio/minio-go/v7"
)

// Begin starts an upload in parts and leaves it.
func (s *Store) Begin(ctx context.Context, key string) (string, error) {
	return s.core.NewMultipartUpload(ctx, s.conf.Bucket, s.conf.Prefix+key, minio.PutObjectOptions{})
}

// Forget makes the store one without conditional writes.
func (s *Store) Forget() { s.atomic = false }

// Fault gives an error the form of the contract.
func Fault(err error) error { return fault("get", "k", err) }
