package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

func TestBlobs(t *testing.T) {
	for _, name := range []string{envAccessKey, envSecretKey} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	text, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags blobFlags
		want  string // of the error
		keyed bool
	}{
		"default":          {blobFlags{}, "", false},
		"directory":        {blobFlags{place: filepath.Join(dir, "else")}, "", false},
		"encrypted":        {blobFlags{key: key}, "", true},
		"no key":           {blobFlags{key: filepath.Join(dir, "none")}, "--blob-key", false},
		"bad key":          {blobFlags{key: "/dev/null"}, "--blob-key", false},
		"no credentials":   {blobFlags{place: "s3://bucket/prefix"}, envSecretKey, false},
		"secret in a flag": {blobFlags{place: "s3://user:secret@bucket"}, "want s3://BUCKET", false},
		"no bucket":        {blobFlags{place: "s3:///prefix"}, "want s3://BUCKET", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, end, err := tt.flags.open(t.Context(), dir)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("open: %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil || b.Objects == nil || (b.Key != nil) != tt.keyed {
				t.Fatalf("open: %v, keyed %t", err, b.Key != nil)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}
