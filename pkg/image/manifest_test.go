package image_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/image"
)

func digest(c string) image.Digest { return image.Digest("sha256:" + strings.Repeat(c, 64)) }

func validManifest() image.Manifest {
	m := image.Manifest{
		Version: image.ManifestVersion, Name: "debian-xfce", Tag: "latest",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Disk: image.Disk{
			File: image.File{Size: 4096, Digest: digest("a")}, Format: image.FormatRaw, VirtualSize: 4096,
		},
		Boot: image.Boot{
			Kernel: image.File{Size: 1, Digest: digest("b")}, Initrd: image.File{Size: 2, Digest: digest("c")},
			Cmdline: "root=/dev/vda rw", KernelVersion: "6.1.0",
		},
		Guest: image.Guest{OS: "linux", Arch: "amd64", User: "agent", UID: 1000, Width: 1280, Height: 800},
	}
	m.Digest = m.ComputeDigest()
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	want := validManifest()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.ParseManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestParseManifestRefuses(t *testing.T) {
	t.Parallel()
	edit := func(change func(*image.Manifest)) string {
		m := validManifest()
		change(&m)
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	valid := edit(func(*image.Manifest) {})
	tests := map[string]string{
		"nothing":             "",
		"no JSON":             "{",
		"unknown field":       strings.Replace(valid, `"name"`, `"nome"`, 1),
		"trailing data":       valid + "{}",
		"another version":     edit(func(m *image.Manifest) { m.Version = 2 }),
		"name of a path":      edit(func(m *image.Manifest) { m.Name = "../x" }),
		"format of none":      edit(func(m *image.Manifest) { m.Disk.Format = "vmdk" }),
		"digest of a path":    edit(func(m *image.Manifest) { m.Boot.Kernel.Digest = "sha256:../.." }),
		"size below zero":     edit(func(m *image.Manifest) { m.Boot.Initrd.Size = -1 }),
		"raw of other size":   edit(func(m *image.Manifest) { m.Disk.VirtualSize = 8192 }),
		"changed cmdline":     edit(func(m *image.Manifest) { m.Boot.Cmdline += " init=/bin/sh" }),
		"newline in cmdline":  edit(func(m *image.Manifest) { m.Boot.Cmdline = "a\nb"; m.Digest = m.ComputeDigest() }),
		"digest of a sibling": edit(func(m *image.Manifest) { m.Digest = digest("d") }),
		"parks no window":     edit(func(m *image.Manifest) { m.Guest.Park.Argv = []string{"x"} }),
		"parks no program":    edit(func(m *image.Manifest) { m.Guest.Park.Class = "X" }),
		"parks binary":        edit(func(m *image.Manifest) { m.Guest.Park = image.Park{Argv: []string{"\x01"}, Class: "X"} }),
		"no display":          edit(func(m *image.Manifest) { m.Guest.Width = 0 }),
		"far too large":       strings.Repeat(" ", 2<<20),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := image.ParseManifest([]byte(data)); !errors.Is(err, image.ErrBadManifest) {
				t.Errorf("ParseManifest = %v, want ErrBadManifest", err)
			}
		})
	}
}

// What decides about a boot is in the digest, what tells about a build is not.
func TestComputeDigest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*image.Manifest)
		same   bool
	}{
		"created": {change: func(m *image.Manifest) { m.Created = m.Created.Add(time.Hour) }, same: true},
		"name":    {change: func(m *image.Manifest) { m.Name = "other" }, same: true},
		"recipe":  {change: func(m *image.Manifest) { m.Build.Recipe = digest("e") }, same: true},
		"display": {change: func(m *image.Manifest) { m.Guest.Width++ }, same: true},
		"park":    {change: func(m *image.Manifest) { m.Guest.Park = image.Park{Argv: []string{"x"}, Class: "X"} }, same: true},
		"disk":    {change: func(m *image.Manifest) { m.Disk.Digest = digest("e") }},
		"format":  {change: func(m *image.Manifest) { m.Disk.Format = image.FormatQcow2 }},
		"size":    {change: func(m *image.Manifest) { m.Disk.VirtualSize++ }},
		"kernel":  {change: func(m *image.Manifest) { m.Boot.Kernel.Digest = digest("e") }},
		"initrd":  {change: func(m *image.Manifest) { m.Boot.Initrd.Digest = digest("e") }},
		"cmdline": {change: func(m *image.Manifest) { m.Boot.Cmdline += " x" }},
		"arch":    {change: func(m *image.Manifest) { m.Guest.Arch = "arm64" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := validManifest()
			before := m.ComputeDigest()
			tt.change(&m)
			if same := m.ComputeDigest() == before; same != tt.same {
				t.Errorf("digest stays the same: %t, want %t", same, tt.same)
			}
		})
	}
}

func FuzzParseManifest(f *testing.F) {
	data, err := json.Marshal(validManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"disk":{"size":1e300}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := image.ParseManifest(data)
		if err != nil {
			if !errors.Is(err, image.ErrBadManifest) {
				t.Fatalf("error of another class: %v", err)
			}
			return
		}
		if m.Digest != m.ComputeDigest() {
			t.Fatalf("manifest with a wrong digest was taken")
		}
	})
}
