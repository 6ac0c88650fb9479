package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// TestMediaFlags: where viewers are taken, and what belongs together.
func TestMediaFlags(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("shared\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, listen, flags string
		want                rtc.Config
		wrong               string
	}{
		{name: "next port", listen: "127.0.0.1:8700", want: rtc.Config{Listen: "127.0.0.1:8701"}},
		{name: "any port", listen: "[::1]:0", want: rtc.Config{Listen: "[::1]:0"}},
		{name: "no next port", listen: "127.0.0.1:65535", wrong: "has none next to it"},
		{name: "none", listen: "127.0.0.1:8700", flags: "--media-listen=none", want: rtc.Config{Listen: noMedia}},
		{name: "no address", listen: "127.0.0.1:8700", flags: "--media-listen=here", wrong: "missing port"},
		{
			name: "turn", listen: "127.0.0.1:8700", flags: "--turn=turn:a.example,turn:b.example --turn-ttl=5m --turn-secret-file=" + secret,
			want: rtc.Config{Listen: "127.0.0.1:8701", TURN: []rtc.TURN{{URLs: []string{"turn:a.example", "turn:b.example"}, Secret: "shared", TTL: 5 * time.Minute}}},
		},
		{name: "turn without a secret", listen: "127.0.0.1:8700", flags: "--turn=turn:a.example", wrong: "belong together"},
		{name: "public", listen: "127.0.0.1:8700", flags: "--media-public=198.51.100.256", wrong: "198.51.100.256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f mediaFlags
			fl := pflag.NewFlagSet("test", pflag.ContinueOnError)
			f.add(fl)
			if err := fl.Parse(strings.Fields(tc.flags)); err != nil {
				t.Fatal(err)
			}
			got, err := f.parse(tc.listen)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("%v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMediaPortTaken: the port next to the API's may be somebody else's; one that was
// asked for may not.
func TestMediaPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := serveConfig{media: rtc.Config{Listen: taken.Addr().String()}, anyPort: true, log: slog.New(slog.DiscardHandler)}
	e, end, err := openMedia(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e.Addr().String() == taken.Addr().String() {
		t.Error("viewers come by a port that is taken")
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	cfg.anyPort = false
	if _, _, err := openMedia(t.Context(), cfg); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that was asked for and is taken: %v", err)
	}
}
