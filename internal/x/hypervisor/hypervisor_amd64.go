package hypervisor

import "encoding/binary"

// cpuid asks the processor.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

func name() string {
	const present = 1 << 31 // in ecx of leaf 1
	if _, _, ecx, _ := cpuid(1, 0); ecx&present == 0 {
		return ""
	}
	_, ebx, ecx, edx := cpuid(0x4000_0000, 0)
	var b []byte
	for _, r := range []uint32{ebx, ecx, edx} {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	return string(b)
}
