package build

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
)

const (
	capabilityXattr = "security.capability"

	// Layout of the attribute, linux/capability.h: revision 3 is revision 2 and the id of
	// the user namespace's root, which has no meaning in the guest.
	capRevisionMask = 0xff000000
	capRevision2    = 0x02000000
	capRevision3    = 0x03000000
	capSize2        = 20
)

// readCapabilities fills in the file capabilities of executables and writes each where
// diskScript looks for it.
func readCapabilities(nodes []node, root string) error {
	for i := range nodes {
		n := &nodes[i]
		if n.kind != 'f' || n.mode&0o111 == 0 {
			continue
		}
		buf := make([]byte, 64)
		size, err := syscall.Getxattr(root+n.path, capabilityXattr, buf)
		if errors.Is(err, syscall.ENODATA) || errors.Is(err, syscall.ENOTSUP) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read capabilities of %s: %w", n.path, err)
		}
		if n.xattr, err = guestCapability(buf[:size]); err != nil {
			return fmt.Errorf("read capabilities of %s: %w", n.path, err)
		}
		if err := os.WriteFile(xattrFile(root, i), n.xattr, 0o600); err != nil {
			return fmt.Errorf("keep capabilities of %s: %w", n.path, err)
		}
	}
	return nil
}

// guestCapability turns an attribute of revision 3 into one of revision 2.
func guestCapability(attr []byte) ([]byte, error) {
	if len(attr) < capSize2 {
		return nil, fmt.Errorf("attribute of %d bytes", len(attr))
	}
	magic := binary.LittleEndian.Uint32(attr)
	if rev := magic & capRevisionMask; rev != capRevision2 && rev != capRevision3 {
		return nil, fmt.Errorf("attribute of revision %#x", rev)
	}
	out := append([]byte(nil), attr[:capSize2]...)
	binary.LittleEndian.PutUint32(out, magic&^uint32(capRevisionMask)|capRevision2)
	return out, nil
}
