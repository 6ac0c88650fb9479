package vm

// Every machine has a private network of its own with the same addresses, so
// that a clone needs no renumbering.
const (
	GuestIP   = "192.168.127.2"
	GatewayIP = "192.168.127.1"
	Subnet    = "192.168.127.0/24"
	GuestMAC  = "5a:94:ef:e4:0c:ee"
	// NetworkMTU is the largest packet, in bytes: no wire limits it, and large
	// ones cost less each byte.
	NetworkMTU = 65520
)
