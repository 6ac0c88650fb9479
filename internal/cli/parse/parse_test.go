package parse_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// outcome fails unless an error is as wanted: part of an invalid one, or none.
func outcome(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got %v", err)
		}
		return
	}
	if !errors.Is(err, &api.Error{Code: api.CodeInvalid}) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an invalid one with %q", err, want)
	}
}

func TestTarget(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want parse.Target
		err  string
	}{
		{"-", parse.Target{Path: "-"}, ""},
		{"file", parse.Target{Path: "file"}, ""},
		{"/a:b", parse.Target{Path: "/a:b"}, ""},
		{"./a:b", parse.Target{Path: "./a:b"}, ""},
		{"d1:/tmp/x", parse.Target{Desktop: "d1", Path: "/tmp/x"}, ""},
		{"calm-otter:rel:x", parse.Target{Desktop: "calm-otter", Path: "rel:x"}, ""},
		{"d1:-", parse.Target{Desktop: "d1", Path: "-"}, ""},
		{"", parse.Target{}, "is empty"},
		{"d1:", parse.Target{}, "no path"},
		{":x", parse.Target{}, "does not name"},
		{"Not A Desktop:x", parse.Target{}, "write ./Not"},
		{"d1:a\x00b", parse.Target{}, "NUL"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := parse.Parse(tc.in)
			outcome(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMiB(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64
		err  string
	}{
		{"64M", 64, ""},
		{"10G", 10240, ""},
		{"10GiB", 10240, ""},
		{"10gb", 10240, ""},
		{"1T", 1 << 20, ""},
		{"10", 0, "with M, G or T"},
		{"", 0, "with M, G or T"},
		{"1K", 0, "with M, G or T"},
		{"1.5G", 0, "with M, G or T"},
		{"-1G", 0, "with M, G or T"},
		{"0G", 0, "out of range"},
		{"9223372036854775807T", 0, "out of range"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := parse.MiB(tc.in)
			outcome(t, err, tc.err)
			if got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDisplay(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want api.Display
		err  string
	}{
		{"1280x800", api.Display{Width: 1280, Height: 800}, ""},
		{"320x200", api.Display{Width: 320, Height: 200}, ""},
		{"319x200", api.Display{}, "within"},
		{"7681x200", api.Display{}, "within"},
		{"1280", api.Display{}, "WIDTHxHEIGHT"},
		{"1280x", api.Display{}, "WIDTHxHEIGHT"},
		{"1280x800x24", api.Display{}, "WIDTHxHEIGHT"},
		{"-1x800", api.Display{}, "WIDTHxHEIGHT"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := parse.Display(tc.in)
			outcome(t, err, tc.err)
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRegion(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want *api.Region
		err  string
	}{
		{"1,2,30x40", &api.Region{X: 1, Y: 2, Width: 30, Height: 40}, ""},
		{"1,2,0x40", nil, "X,Y,"},
		{"-1,2,3x40", nil, "X,Y,"},
		{"1,2", nil, "X,Y,"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := parse.Region(tc.in)
			outcome(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPoints(t *testing.T) {
	got, err := parse.Points([]string{"1", "2", "-3", "4"})
	if diff := cmp.Diff([][2]int{{1, 2}, {-3, 4}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range [][]string{{"1", "2"}, {"1", "2", "3"}, {"a", "2", "3", "4"}, nil} {
		_, err := parse.Points(bad)
		if !errors.Is(err, &api.Error{Code: api.CodeInvalid}) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPairs(t *testing.T) {
	got, err := parse.Pairs("label", []string{"a=1", "b=", "c=x=y", "a=2"})
	if diff := cmp.Diff(map[string]string{"a": "2", "b": "", "c": "x=y"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"a", "=1", ""} {
		_, err := parse.Pairs("label", []string{bad})
		outcome(t, err, "label")
	}
}

func TestFilter(t *testing.T) {
	got, err := parse.Filter([]string{"label=team=x", "label=gpu", "state=ready", "name=n"})
	want := client.Filter{Labels: map[string]string{"team": "x", "gpu": ""}, State: "ready", Name: "n"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"label", "label=", "label==x", "colour=red"} {
		_, err := parse.Filter([]string{bad})
		outcome(t, err, "filter")
	}
}

func TestForward(t *testing.T) {
	for _, tc := range []struct {
		in, listen string
		port       int
		err        string
	}{
		{"80", "127.0.0.1:80", 80, ""},
		{"8080:80", "127.0.0.1:8080", 80, ""},
		{"0:80", "127.0.0.1:0", 80, ""},
		{":80", "127.0.0.1:80", 80, ""},
		{"0.0.0.0:8080:80", "0.0.0.0:8080", 80, ""},
		{"[::1]:8080:80", "[::1]:8080", 80, ""},
		{"", "", 0, "guest's port"},
		{"8080:0", "", 0, "guest's port"},
		{"70000:80", "", 0, "local port"},
		{"name:1:80", "", 0, "IP address"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			listen, port, err := parse.Forward(tc.in)
			outcome(t, err, tc.err)
			if listen != tc.listen || port != tc.port {
				t.Errorf("got %s, %d", listen, port)
			}
		})
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"-", "d1:/tmp", "./a:b", "a b:c", ":", "d1:", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse.Parse(s)
		if err != nil {
			outcome(t, err, " ")
			return
		}
		back := got.Path
		if got.Remote() {
			back = got.Desktop + ":" + got.Path
		}
		if back != s || got.Path == "" {
			t.Errorf("%q became %+v", s, got)
		}
	})
}

func FuzzSizes(f *testing.F) {
	for _, s := range []string{"10G", "1280x800", "0T", "99999999999999999999M", "xx"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parse.MiB(s); err == nil && n <= 0 {
			t.Errorf("size %q is %d MiB", s, n)
		}
		if d, err := parse.Display(s); err == nil && (d.Width < 320 || d.Height < 200 || d.Width > 7680 || d.Height > 4320) {
			t.Errorf("display %q is %v", s, d)
		}
		if r, err := parse.Region(s); err == nil && (r.X < 0 || r.Y < 0 || r.Width < 1 || r.Height < 1) {
			t.Errorf("region %q is %v", s, r)
		}
	})
}

func FuzzForward(f *testing.F) {
	for _, s := range []string{"80", "8080:80", "[::1]:1:2", "::::", "]:1:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		listen, port, err := parse.Forward(s)
		if err != nil {
			return
		}
		host, _, err := net.SplitHostPort(listen)
		if err != nil || net.ParseIP(host) == nil || port < 1 || port > 65535 {
			t.Errorf("%q became %s, %d: %v", s, listen, port, err)
		}
	})
}
