package graft

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Map replaces size bytes at addr of process pid by a private, writable
// mapping of its descriptor fd from the beginning. What lay there is gone. Only
// the thread that has the process's number stands still meanwhile.
func Map(ctx context.Context, pid int, addr uint64, size int64, fd int) error {
	got := make(chan error, 1)
	go func() { // ends when ctx does at the latest
		// ptrace(2) belongs to one thread; it is not given back, so that nothing
		// of it lasts.
		runtime.LockOSThread()
		err := mapLocked(ctx, pid, addr, size, fd)
		for errors.Is(err, errBusy) && ctx.Err() == nil {
			<-time.After(time.Millisecond)
			err = mapLocked(ctx, pid, addr, size, fd)
		}
		got <- err
	}()
	if err := <-got; err != nil {
		return fmt.Errorf("map a file into process %d: %w", pid, err)
	}
	return nil
}

func mapLocked(ctx context.Context, pid int, addr uint64, size int64, fd int) error {
	t, err := seize(ctx, pid)
	if err != nil {
		return err
	}
	const flags = unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	ret, err := t.call(ctx, unix.SYS_MMAP, addr, uint64(size), unix.PROT_READ|unix.PROT_WRITE, flags, uint64(fd), 0)
	if err == nil && ret != addr {
		err = fmt.Errorf("mmap: %w", unix.Errno(-int64(ret)))
	}
	if letErr := unix.PtraceDetach(pid); letErr != nil {
		err = errors.Join(err, fmt.Errorf("let go: %w", letErr))
	}
	return err
}

// tracee is a stopped thread.
type tracee struct{ pid int }

func seize(ctx context.Context, pid int) (tracee, error) {
	t := tracee{pid}
	if err := unix.PtraceSeize(pid); err != nil {
		return t, fmt.Errorf("trace: %w", err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return t, fmt.Errorf("interrupt: %w", err)
	}
	if err := t.await(ctx, func(s int32) bool { return s>>8 == unix.PTRACE_EVENT_STOP }); err != nil {
		return t, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return t, fmt.Errorf("set options: %w", err)
	}
	return t, nil
}

// syscallInstruction is `syscall` as a little-endian word.
const syscallInstruction = 0x050f

// call makes the thread run one system call and puts its registers back. The
// call that it was interrupted in is begun again.
//
//nolint:revive // a system call has six arguments
func (t tracee) call(ctx context.Context, nr, a, b, c, d, e, f uint64) (uint64, error) {
	var was unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.pid, &was); err != nil {
		return 0, fmt.Errorf("read registers: %w", err)
	}
	var code [2]byte
	if _, err := unix.PtracePeekText(t.pid, uintptr(was.Rip-2), code[:]); err != nil {
		return 0, fmt.Errorf("read code: %w", err)
	}
	if uint16(code[0])|uint16(code[1])<<8 != syscallInstruction {
		return 0, errBusy
	}
	regs := was
	regs.Rip -= 2
	regs.Orig_rax = ^uint64(0)
	regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9 = nr, a, b, c, d, e, f
	if err := unix.PtraceSetRegs(t.pid, &regs); err != nil {
		return 0, fmt.Errorf("set registers: %w", err)
	}
	for range 2 { // its entry and its exit
		if err := unix.PtraceSyscall(t.pid, 0); err != nil {
			return 0, fmt.Errorf("step: %w", err)
		}
		if err := t.await(ctx, func(s int32) bool { return s == int32(unix.SIGTRAP)|syscallStop }); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(t.pid, &regs); err != nil {
		return 0, fmt.Errorf("read result: %w", err)
	}
	again := restart(was)
	if err := unix.PtraceSetRegs(t.pid, &again); err != nil {
		return 0, fmt.Errorf("put registers back: %w", err)
	}
	return regs.Rax, nil
}

// errBusy: the thread computes instead of waiting in a system call.
var errBusy = errors.New("the thread is not waiting in a system call")

// Results inside the kernel of an interrupted call (include/linux/errno.h).
const (
	restartSys     = -512
	restartNoIntr  = -513
	restartNoHand  = -514
	restartBlocked = -516
)

// restart does what the kernel would on the way back to the thread, which our
// own call has taken the place of.
func restart(r unix.PtraceRegs) unix.PtraceRegs {
	if int64(r.Orig_rax) < 0 {
		return r
	}
	switch int64(r.Rax) {
	case restartSys, restartNoIntr, restartNoHand:
		r.Rax = r.Orig_rax
		r.Rip -= 2
	case restartBlocked: // its deadline is lost: the caller has to look itself
		r.Rax = ^uint64(unix.EINTR) + 1 // -EINTR
	}
	r.Orig_rax = ^uint64(0)
	return r
}

// syscallStop marks the stop at a system call's entry or exit.
const syscallStop = 0x80

// await waits for a stop that is wanted, without taking the end of the process
// from whom it belongs to. Signals on the way are delivered.
func (t tracee) await(ctx context.Context, wanted func(status int32) bool) error {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for {
		var info childInfo
		err := unix.Waitid(unix.P_PID, t.pid, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WSTOPPED|unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for the thread: %w", err)
		case info.signo != 0:
			if wanted(info.status) {
				return nil
			}
			if err := unix.PtraceCont(t.pid, deliver(info.status)); err != nil {
				return fmt.Errorf("go on: %w", err)
			}
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// childInfo is what waitid(2) fills in of siginfo_t, with its padding.
type childInfo struct {
	signo, errno, code, _ int32
	pid, uid, status      int32
	_                     [100]byte
}

// deliver is the signal to hand on after a stop; events carry none.
func deliver(status int32) int {
	if status>>8 != 0 || status&syscallStop != 0 {
		return 0
	}
	return int(status)
}
