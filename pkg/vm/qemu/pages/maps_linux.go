package pages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/vm"
)

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end uint64
	perms      string // like rw-p
	offset     uint64 // in the file
	path       string // newlines as \012; empty or [name] when there is no file
}

// Find returns where process pid maps the file at path, from its beginning and
// privately; the file may have been removed since. The kernel shows one mapping
// as many when parts of it were treated differently. vm.ErrNotFound when there
// is none, vm.ErrGone when there is no such process.
func Find(pid int, path string) (Region, error) {
	all, err := mappings(pid)
	if err != nil {
		return Region{}, err
	}
	r, err := locate(all, path)
	if err != nil {
		return Region{}, fmt.Errorf("look for %s in the memory of process %d: %w", path, pid, err)
	}
	return r, nil
}

// FindAt returns the mapping of process pid that contains addr.
func FindAt(pid int, addr uint64) (Region, error) {
	all, err := mappings(pid)
	if err != nil {
		return Region{}, err
	}
	for _, m := range all {
		if m.start <= addr && addr < m.end {
			return Region{Addr: m.start, Size: int64(m.end - m.start)}, nil
		}
	}
	return Region{}, fmt.Errorf("look for address %#x in the memory of process %d: %w", addr, pid, errUnmapped)
}

var errUnmapped = fmt.Errorf("%w: nothing is mapped there", vm.ErrNotFound)

// locate joins the mappings of one file.
func locate(all []mapping, path string) (Region, error) {
	names := []string{path}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		names = append(names, target) // the kernel names files without symbolic links
	}
	var found []mapping
	for _, suffix := range []string{"", " (deleted)"} {
		for _, name := range names {
			want := strings.ReplaceAll(name, "\n", `\012`) + suffix
			for _, m := range all {
				if m.path == want {
					found = append(found, m)
				}
			}
			if len(found) > 0 {
				return join(found)
			}
		}
	}
	return Region{}, fmt.Errorf("%w: it is not mapped", vm.ErrNotFound)
}

func join(parts []mapping) (Region, error) {
	first := parts[0]
	r := Region{Addr: first.start}
	if first.offset != 0 {
		return Region{}, fmt.Errorf("its mapping begins at byte %d of the file", first.offset)
	}
	for _, m := range parts {
		if !strings.HasSuffix(m.perms, "p") {
			return Region{}, errors.New("it is mapped shared: what the process writes is in the file itself")
		}
		if m.start != r.Addr+uint64(r.Size) || m.offset != uint64(r.Size) {
			return Region{}, errors.New("it is mapped more than once or with gaps")
		}
		r.Size += int64(m.end - m.start)
	}
	return r, nil
}

func mappings(pid int) ([]mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, failed("list the memory", pid, err)
	}
	defer f.Close()
	all, err := parseMaps(f)
	if err == nil && len(all) == 0 {
		err = vm.ErrGone // a process that has ended, and was not waited for yet
	}
	if err != nil {
		return nil, failed("list the memory", pid, err)
	}
	return all, nil
}

// parseMaps reads the form "START-END PERMS OFFSET DEV INODE      PATH".
func parseMaps(r io.Reader) ([]mapping, error) {
	var out []mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10) // a path holds 4,096 bytes, escaped four times that
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, lines.Err()
}

func parseMapping(line string) (mapping, error) {
	var field [5]string
	rest := line
	for i := range field {
		field[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	from, to, _ := strings.Cut(field[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	offset, err3 := strconv.ParseUint(field[2], 16, 64)
	if err := errors.Join(err1, err2, err3); err != nil || end <= start || len(field[1]) != 4 {
		return mapping{}, fmt.Errorf("a memory map has the line %q", line)
	}
	return mapping{start, end, field[1], offset, strings.TrimLeft(rest, " ")}, nil
}
