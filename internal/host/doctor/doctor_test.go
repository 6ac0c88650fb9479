package doctor_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// healthy is a configuration without a fault.
func healthy(t *testing.T) doctor.Config {
	t.Helper()
	return doctor.Config{
		DataDir: t.TempDir(), Address: "127.0.0.1:0",
		Images: func(context.Context) ([]api.Image, error) { return []api.Image{{Tags: []string{"a:b"}}}, nil },
		Usage: func() (admission.Usage, error) {
			return admission.Usage{MemoryAvailable: 9 << 30, DiskAvailable: 99 << 30}, nil
		},
		LookPath: func(string) (string, error) { return "/usr/bin/x", nil },
		Now:      func() time.Time { return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC) },
	}
}

func TestExamine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	tests := []struct {
		name   string
		change func(*doctor.Config)
		check  string
		level  string
		ok     bool // of the whole report
	}{
		{"healthy", func(*doctor.Config) {}, "images", doctor.LevelOK, true},
		{"no image", func(c *doctor.Config) { c.Images = func(context.Context) ([]api.Image, error) { return nil, nil } }, "images", doctor.LevelWarning, true},
		{"no data directory", func(c *doctor.Config) { c.DataDir = filepath.Join(c.DataDir, "new") }, "data-directory", doctor.LevelInfo, true},
		{"a file for a directory", func(c *doctor.Config) {
			c.DataDir = filepath.Join(c.DataDir, "file")
			_ = os.WriteFile(c.DataDir, nil, 0o600)
		}, "data-directory", doctor.LevelError, false},
		{"sockets that stay", func(c *doctor.Config) { c.RuntimeDir = "/run/deskfork" }, "runtime-directory", doctor.LevelOK, true},
		{"sockets of a session", func(c *doctor.Config) { c.RuntimeDir = "/run/user/7/deskfork" }, "runtime-directory", doctor.LevelWarning, true},
		{"little memory", func(c *doctor.Config) {
			c.Usage = func() (admission.Usage, error) { return admission.Usage{DiskAvailable: 99 << 30}, nil }
		}, "memory", doctor.LevelWarning, true},
		{"little disk", func(c *doctor.Config) {
			c.Usage = func() (admission.Usage, error) { return admission.Usage{MemoryAvailable: 9 << 30}, nil }
		}, "disk", doctor.LevelWarning, true},
		{"no tool", func(c *doctor.Config) { c.LookPath = func(string) (string, error) { return "", errors.New("none") } }, "tool-mmdebstrap", doctor.LevelWarning, true},
		{"old clock", func(c *doctor.Config) { c.Now = func() time.Time { return time.Unix(0, 0) } }, "clock", doctor.LevelError, false},
		{"port in use", func(c *doctor.Config) { c.Address = busy.Addr().String() }, "address", doctor.LevelWarning, true},
		{"own port", func(c *doctor.Config) { c.Address, c.Listening = busy.Addr().String(), true }, "address", doctor.LevelOK, true},
		{"loopback", func(*doctor.Config) {}, "origin", doctor.LevelOK, true},
		{"plain http", func(c *doctor.Config) { c.Address, c.Listening = "10.0.0.1:80", true }, "origin", doctor.LevelWarning, true},
		{"every address", func(c *doctor.Config) { c.Address, c.Listening = ":80", true }, "origin", doctor.LevelWarning, true},
		{"TLS", func(c *doctor.Config) { c.Address, c.Listening, c.TLS = "10.0.0.1:443", true, true }, "origin", doctor.LevelOK, true},
		{"https outside", func(c *doctor.Config) { c.ExternalURL = &url.URL{Scheme: "https", Host: "x"} }, "origin", doctor.LevelOK, true},
		{"http outside", func(c *doctor.Config) { c.ExternalURL = &url.URL{Scheme: "http", Host: "x"} }, "origin", doctor.LevelWarning, true},
		{"software vCPUs", func(c *doctor.Config) { c.Provider = vmtest.New(vmtest.Config{}) }, "accelerator", doctor.LevelWarning, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := healthy(t)
			tt.change(&cfg)
			report := doctor.Examine(t.Context(), cfg)
			if report.OK != tt.ok {
				t.Errorf("report is %t: %+v", report.OK, report.Checks)
			}
			for _, c := range report.Checks {
				if c.Name == tt.check {
					if c.Level != tt.level || c.Detail == "" || (c.Level == doctor.LevelError && c.Fix == "") {
						t.Errorf("check is %+v, want level %s", c, tt.level)
					}
					return
				}
			}
			t.Errorf("no check %s", tt.check)
		})
	}
}

// Builds find their tools in sbin, so doctor must not call these missing.
func TestToolInSbin(t *testing.T) {
	t.Setenv("PATH", "/usr/local/bin:/usr/games")
	cfg := healthy(t)
	cfg.LookPath = nil
	cfg.Tools = []doctor.Tool{{Name: "mke2fs", Package: "e2fsprogs", For: "make the system disk"}}
	for _, c := range doctor.Examine(t.Context(), cfg).Checks {
		if c.Name == "tool-mke2fs" && c.Level != doctor.LevelOK {
			t.Errorf("%+v", c)
		}
	}
}
