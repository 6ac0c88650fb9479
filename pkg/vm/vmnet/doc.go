// Package vmnet is the private network of one machine, in this process and
// without privileges: an Ethernet cable to the hypervisor, a gateway with DHCP
// and DNS, and forwarders that carry the guest's TCP and UDP out through a
// policy. The host dials the guest through it.
//
//	guest ── virtio-net ── QEMU ══ unixgram G/H ══ link ── switch ── gateway stack
//	                                                                 ├ DHCP, DNS, ICMP echo
//	                                                                 ├ TCP, UDP forwarders ── Dialer (policy) ── internet
//	                                                                 └ DialContext ◀── host
//
// Every machine has a network of its own with the same addresses (those of
// package vm), so no guest can reach another and a clone needs no renumbering.
// Nothing listens on a port of the host.
//
// The cable is QEMU's
//
//	-netdev dgram,local.type=unix,local.path=G,remote.type=unix,remote.path=H
//
// It loses frames while the other end is missing or stalled, as a cable does,
// and never ends for that. A new process that binds H again is reached by the
// same guest: connections of before are reset, new ones work.
//
// What a guest sends is filtered before anything parses it (frames from another
// MAC or IP address, malformed DHCP, echo requests that are not for the gateway
// are dropped), and what it may hold is bounded: flows, queries, buffers.
package vmnet
