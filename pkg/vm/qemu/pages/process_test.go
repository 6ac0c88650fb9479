//go:build linux

package pages_test

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

const page = 4096

// TestMain is also the processes whose memory is looked at.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "child" {
		if err := child(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "tiny" {
		if err := tiny(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child maps the file at path, privately unless how is "shared", says where, and
// carries out what it is told, a line each, with a line as the answer.
func child(path, how string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	flags := unix.MAP_PRIVATE | unix.MAP_NORESERVE
	if how == "shared" {
		flags = unix.MAP_SHARED
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, uintptr(unsafe.Pointer(&mem[0])))
	var calm atomic.Bool
	var writers sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer := "done"
		switch line := lines.Text(); line {
		case "hash":
			answer = hash(mem)
		case "storm":
			calm.Store(false)
			for seed := range uint64(3) {
				writers.Go(func() {
					for r := rand.New(rand.NewPCG(seed, 0)); !calm.Load(); {
						mem[r.IntN(len(mem))]++
					}
				})
			}
		case "calm":
			calm.Store(true)
			writers.Wait()
		default:
			if err := act(mem, line); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stdout, answer)
	}
	return nil
}

// act changes memory: the child's, and the model of it.
func act(mem []byte, line string) error {
	var verb string
	var from, count, seed int
	if _, err := fmt.Sscan(line, &verb, &from, &count, &seed); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	part := mem[from*page : (from+count)*page]
	switch verb {
	case "fill":
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		for i := 0; i < len(part); i += 8 {
			*(*uint64)(unsafe.Pointer(&part[i])) = r.Uint64()
		}
	case "last": // of a page that is zero else
		for i := 0; i < len(part); i += page {
			clear(part[i : i+page])
			part[i+page-1] = byte(seed)
		}
	case "zero":
		clear(part)
	case "same":
		for i := 0; i < len(part); i += page {
			p := (*byte)(unsafe.Pointer(&part[i]))
			*p ^= byte(seed) // seed is 0; the compiler does not know
		}
	case "look":
		sum := byte(0)
		for i := 0; i < len(part); i += page {
			sum ^= part[i]
		}
		fmt.Fprint(io.Discard, sum)
	case "split":
		return unix.Madvise(part, unix.MADV_DONTFORK)
	case "drop":
		return unix.Madvise(part, unix.MADV_DONTNEED)
	case "unmap":
		_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&part[0])), uintptr(len(part)), 0)
		if errno != 0 {
			return errno
		}
	default:
		return errors.New("unknown verb " + verb)
	}
	return nil
}

func hash(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// process is a child.
type process struct {
	tb     testing.TB
	pid    int
	region pages.Region
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
}

func start(tb testing.TB, path string) *process { tb.Helper(); return startHow(tb, path, "private") }

func startHow(tb testing.TB, path, how string) *process {
	tb.Helper()
	st, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{tb: tb, cmd: exec.Command("/proc/self/exe", "child", path, how)}
	p.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if out, err = p.cmd.StdoutPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.kill)
	p.pid, p.out = p.cmd.Process.Pid, bufio.NewReader(out)
	p.region.Size = st.Size()
	if _, err := fmt.Sscan(p.answer(), &p.region.Addr); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (p *process) answer() string {
	p.tb.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.tb.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *process) tell(line string) string {
	p.tb.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.tb.Fatal(err)
	}
	return p.answer()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // killed
}

func (p *process) changed() []pages.Run {
	p.tb.Helper()
	runs, err := pages.Changed(p.pid, p.region)
	if err != nil {
		p.tb.Fatal(err)
	}
	return runs
}

// template makes a file with content in even pages of its first half and a hole
// behind, and returns its bytes too.
func template(tb testing.TB, dir string, size int64) (path string, content []byte) {
	tb.Helper()
	path = filepath.Join(dir, "template")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	content = make([]byte, size)
	for i := int64(0); i < size/page/2; i += 2 {
		if err := act(content, fmt.Sprintf("fill %d 1 %d", i, i+1)); err != nil {
			tb.Fatal(err)
		}
		if _, err := f.WriteAt(content[i*page:(i+1)*page], i*page); err != nil {
			tb.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		tb.Fatal(err)
	}
	return path, content
}

// blank makes a file that is one hole.
func blank(tb testing.TB, dir string, size int64) string {
	tb.Helper()
	path := filepath.Join(dir, "blank")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		tb.Fatal(err)
	}
	return path
}

func create(tb testing.TB, size int64) (*pages.File, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "pages")
	f, err := pages.Create(path, size)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	})
	return f, path
}

// opened opens a pages file for a test.
func opened(t *testing.T, path string) *pages.File {
	t.Helper()
	f, err := pages.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// inMemory makes a directory on the tmpfs of the host.
func inMemory(tb testing.TB) string {
	tb.Helper()
	dir := fmt.Sprintf("/dev/shm/pages-%d-%s", os.Getpid(), tb.Name())
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}
