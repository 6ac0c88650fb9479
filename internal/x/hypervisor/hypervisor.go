// Package hypervisor tells under which hypervisor this program runs.
package hypervisor

import "strings"

// TCG is the name of QEMU's emulator: every instruction is translated.
const TCG = "TCGTCGTCGTCG"

// Name is what the processor says of its hypervisor, such as "KVMKVMKVM" or TCG;
// empty on bare metal, and where it cannot be asked.
func Name() string { return strings.TrimRight(name(), "\x00") }
