package policy_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

func dialer(t *testing.T, cfg policy.Config) *policy.Dialer {
	t.Helper()
	d, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func noHost(netip.Addr) (bool, error) { return false, nil }

func TestCheck(t *testing.T) {
	lan := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	configs := map[string]policy.Config{
		"default": {Own: noHost},
		"private": {Own: noHost, AllowPrivate: true},
		"lan":     {Own: noHost, Allow: lan},
		"all":     {Own: noHost, Allow: everything, AllowPrivate: true},
		"closed":  {Own: noHost, AllowPrivate: true, Allow: lan, Deny: everything},
	}
	// Each address lists the configurations under which it may be dialled.
	for addr, open := range map[string][]string{
		"127.0.0.1":                {},
		"127.255.255.254":          {},
		"0.0.0.0":                  {},
		"0.1.2.3":                  {},
		"::":                       {},
		"::1":                      {},
		"::7f00:1":                 {}, // IPv4-compatible 127.0.0.1
		"::ffff:127.0.0.1":         {},
		"::ffff:169.254.169.254":   {},
		"::ffff:0.0.0.0":           {},
		"169.254.169.254":          {},
		"169.254.0.1":              {},
		"fe80::1":                  {},
		"fe80::1%eth0":             {},
		"2606:4700::1%eth0":        {},
		"febf::1":                  {},
		"fec0::1":                  {},
		"224.0.0.251":              {},
		"239.255.255.250":          {},
		"ff02::fb":                 {},
		"240.0.0.1":                {},
		"255.255.255.255":          {},
		"192.168.127.1":            {},
		"192.168.127.2":            {},
		"192.168.127.255":          {},
		"100.100.100.200":          {},
		"168.63.129.16":            {},
		"192.0.0.192":              {},
		"fd00:ec2::254":            {},
		"fd20:ce::254":             {},
		"64:ff9b::7f00:1":          {}, // NAT64 of 127.0.0.1
		"64:ff9b::a9fe:a9fe":       {}, // NAT64 of 169.254.169.254
		"64:ff9b:1::808:808":       {},
		"2002:7f00:1::":            {}, // 6to4 of 127.0.0.1
		"2001:0:4136:e378::1":      {},
		"10.0.0.1":                 {"private", "all"},
		"10.1.2.3":                 {"private", "lan", "all"},
		"::ffff:10.1.2.3":          {"private", "lan", "all"},
		"64:ff9b::a01:203":         {"private", "lan", "all"}, // NAT64 of 10.1.2.3
		"172.16.0.1":               {"private", "all"},
		"172.31.255.255":           {"private", "all"},
		"172.32.0.1":               {"default", "private", "lan", "all"},
		"192.168.1.1":              {"private", "all"},
		"192.168.126.255":          {"private", "all"},
		"192.168.128.0":            {"private", "all"},
		"100.64.0.1":               {"private", "all"},
		"198.18.0.1":               {"private", "all"},
		"fc00::1":                  {"private", "all"},
		"fd12:3456::1":             {"private", "all"},
		"8.8.8.8":                  {"default", "private", "lan", "all"},
		"::ffff:8.8.8.8":           {"default", "private", "lan", "all"},
		"64:ff9b::808:808":         {"default", "private", "lan", "all"},
		"2606:4700:4700::1111":     {"default", "private", "lan", "all"},
		"126.255.255.255":          {"default", "private", "lan", "all"},
		"128.0.0.1":                {"default", "private", "lan", "all"},
		"169.253.255.255":          {"default", "private", "lan", "all"},
		"223.255.255.255":          {"default", "private", "lan", "all"},
		"2002:808:808::1":          {"default", "private", "lan", "all"},
		"2a00:1450:4001:82a::200e": {"default", "private", "lan", "all"},
	} {
		t.Run(addr, func(t *testing.T) {
			got := []string{}
			for _, name := range []string{"default", "private", "lan", "all", "closed"} {
				err := dialer(t, configs[name]).Check(netip.MustParseAddr(addr))
				if err == nil {
					got = append(got, name)
				} else if !errors.Is(err, policy.ErrDenied) {
					t.Errorf("under %s: %v is not a refusal", name, err)
				}
			}
			if diff := cmp.Diff(open, got); diff != "" {
				t.Errorf("open under (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no address", func(t *testing.T) {
		if err := dialer(t, configs["all"]).Check(netip.Addr{}); !errors.Is(err, policy.ErrDenied) {
			t.Errorf("zero address: %v", err)
		}
	})
}

// TestOwnAddresses uses the addresses that this very machine has.
func TestOwnAddresses(t *testing.T) {
	d := dialer(t, policy.Config{AllowPrivate: true})
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		own := netip.MustParsePrefix(a.String()).Addr()
		for _, form := range []netip.Addr{own, netip.AddrFrom16(own.As16())} {
			if err := d.Check(form); !errors.Is(err, policy.ErrDenied) {
				t.Errorf("own address %s: %v", form, err)
			}
		}
	}
}

func TestOwnIsAskedEachTime(t *testing.T) {
	own := false
	d := dialer(t, policy.Config{Own: func(netip.Addr) (bool, error) { return own, nil }})
	public := netip.MustParseAddr("203.0.113.7")
	if err := d.Check(public); err != nil {
		t.Fatal(err)
	}
	own = true // the host was given the address
	if err := d.Check(public); !errors.Is(err, policy.ErrDenied) {
		t.Errorf("address of this host: %v", err)
	}
}

func TestUnknownHostClosesAll(t *testing.T) {
	broken := errors.New("netlink is broken")
	d := dialer(t, policy.Config{Own: func(netip.Addr) (bool, error) { return false, broken }})
	if err := d.Check(netip.MustParseAddr("8.8.8.8")); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestDialUsesTheCheckedAddress(t *testing.T) {
	var dialled []string
	d := dialer(t, policy.Config{Own: noHost, Dial: func(_ context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, network+" "+to.String())
		a, b := net.Pipe()
		_ = b.Close()
		return a, nil
	}})
	for _, to := range []string{"[::ffff:8.8.8.8]:53", "127.0.0.1:80", "[::ffff:127.0.0.1]:80", "1.1.1.1:443"} {
		c, err := d.Dial(t.Context(), "tcp", netip.MustParseAddrPort(to))
		if err == nil {
			_ = c.Close()
		}
	}
	if diff := cmp.Diff([]string{"tcp 8.8.8.8:53", "tcp 1.1.1.1:443"}, dialled); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
}

func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dialer(t, policy.Config{Own: noHost, Timeout: 3 * time.Second, Dial: func(ctx context.Context, _ string, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		start := time.Now()
		_, err := d.Dial(t.Context(), "tcp", netip.MustParseAddrPort("8.8.8.8:1"))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("ended after %s with %v", time.Since(start), err)
		}
	})
}

// TestKernelNeverReachesThisHost dials a real listener past a policy that
// believes nothing belongs to the host: the look at the connection remains.
func TestKernelNeverReachesThisHost(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, a := range addrs {
		own := netip.MustParsePrefix(a.String()).Addr()
		if !own.Is4() || own.IsLoopback() || own.IsLinkLocalUnicast() {
			continue
		}
		tried++
		l, err := net.Listen("tcp", netip.AddrPortFrom(own, 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d := dialer(t, policy.Config{Own: noHost, AllowPrivate: true})
		for _, network := range []string{"tcp", "udp"} {
			c, err := d.Dial(t.Context(), network, netip.MustParseAddrPort(l.Addr().String()))
			if !errors.Is(err, policy.ErrDenied) {
				t.Errorf("dial %s %s: %v, %v", network, l.Addr(), c, err)
			}
		}
	}
	t.Logf("tried %d addresses", tried)
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]policy.Config{
		"invalid prefix":   {Allow: []netip.Prefix{{}}},
		"negative timeout": {Timeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := policy.New(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	d, err := policy.New(policy.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for _, addr := range []string{"8.8.8.8", "10.0.0.1"} {
		b.Run(addr, func(b *testing.B) {
			for b.Loop() {
				_ = d.Check(netip.MustParseAddr(addr))
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1})
	d, err := policy.New(policy.Config{Own: noHost, AllowPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("::/0")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		u := addr.Unmap()
		closed := u.IsLoopback() || u.IsUnspecified() || u.IsMulticast() || u.IsLinkLocalUnicast()
		if err := d.Check(addr); closed && !errors.Is(err, policy.ErrDenied) {
			t.Errorf("%s: %v", addr, err)
		}
	})
}
