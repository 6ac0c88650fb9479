package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/image"
)

func TestParseReference(t *testing.T) {
	t.Parallel()
	hex64 := strings.Repeat("0123456789abcdef", 4)
	tests := map[string]struct {
		in   string
		want image.Reference
		bad  bool
	}{
		"name":                   {in: "debian-xfce", want: image.Reference{Name: "debian-xfce", Tag: "latest"}},
		"name and tag":           {in: "debian-xfce:2026.11", want: image.Reference{Name: "debian-xfce", Tag: "2026.11"}},
		"capitals in tag":        {in: "a:RC1", want: image.Reference{Name: "a", Tag: "RC1"}},
		"digest":                 {in: "sha256:" + hex64, want: image.Reference{Digest: hex64}},
		"beginning of a digest":  {in: "sha256:0123456789ab", want: image.Reference{Digest: "0123456789ab"}},
		"bare hex":               {in: "0123456789ab", want: image.Reference{Digest: "0123456789ab"}},
		"short hex is a name":    {in: "abc", want: image.Reference{Name: "abc", Tag: "latest"}},
		"empty":                  {in: "", bad: true},
		"empty tag":              {in: "a:", bad: true},
		"two tags":               {in: "a:b:c", bad: true},
		"capital in name":        {in: "Debian", bad: true},
		"algorithm as name":      {in: "sha256", bad: true},
		"hex with a tag":         {in: "0123456789ab:latest", bad: true},
		"parent directory":       {in: "../../etc", bad: true},
		"dots":                   {in: "..", bad: true},
		"parent directory a tag": {in: "a:..", bad: true},
		"slash in tag":           {in: "a:b/c", bad: true},
		"hidden":                 {in: ".tags", bad: true},
		"zero byte":              {in: "a\x00b", bad: true},
		"too long":               {in: strings.Repeat("x", 64), bad: true},
		"short digest":           {in: "sha256:0123", bad: true},
		"long digest":            {in: "sha256:" + hex64 + "0", bad: true},
		"capitals in digest":     {in: "sha256:0123456789AB", bad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := image.ParseReference(tt.in)
			if tt.bad {
				if !errors.Is(err, image.ErrBadReference) {
					t.Fatalf("ParseReference(%q) = %v, %v; want ErrBadReference", tt.in, got, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("ParseReference(%q): %v", tt.in, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseReference(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"debian-xfce", "a:b", "sha256:0123456789ab", "../x", "a:..", "0123456789abcdef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := image.ParseReference(s)
		if err != nil {
			if !errors.Is(err, image.ErrBadReference) {
				t.Fatalf("error of another class: %v", err)
			}
			return
		}
		if strings.ContainsAny(ref.Name+ref.Tag+ref.Digest, "/\\\x00 ") || strings.HasPrefix(ref.Name, ".") {
			t.Fatalf("ParseReference(%q) = %+v is no safe file name", s, ref)
		}
		again, err := image.ParseReference(ref.String())
		if err != nil || again != ref {
			t.Fatalf("ParseReference(%q) = %+v, of its String: %+v, %v", s, ref, again, err)
		}
	})
}
