// Package qmp speaks the QEMU Machine Protocol to one QEMU.
//
// It keeps the vocabulary of github.com/digitalocean/go-qemu/qmp (Monitor,
// Command, Event, Version; see [Monitor]) and replaces its SocketMonitor, which no wrapping
// can cure: its reader ends for good at a line above 64 KiB (query-qmp-schema
// alone has 200), its event channel is unbuffered, so that an idle listener
// stops all commands, a command has no deadline, and an error loses its class.
//
// Here lines may have [MaxLine] bytes; every command has a deadline and an id,
// so that a late reply is never taken for another's; errors keep their class
// ([Error]); events go to subscribers through bounded queues that drop the
// oldest and count it.
package qmp
