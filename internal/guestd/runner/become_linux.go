package runner

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// become takes secrets and becomes the program. It returns only when it fails.
func become(argv, environ []string) error {
	// Others of the same user must not look into this process; into the program they
	// may as into any other.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close memory to others: %w", err)
	}
	secrets, err := receive(os.NewFile(SealedFD, "sealed"), os.NewFile(KeyFD, "key"))
	if err != nil {
		return err
	}
	if secrets.HasInput {
		if err := input(secrets.Input); err != nil {
			return fmt.Errorf("make standard input: %w", err)
		}
	}
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	tag := env[TagVariable]
	maps.Copy(env, secrets.Env)
	env[TagVariable] = tag
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	path, err := account.LookPath(argv[0], dir, list)
	if err != nil {
		return err
	}
	return &fs.PathError{Op: "start", Path: path, Err: unix.Exec(path, argv, list)}
}

// receive tells a key and reads what was encrypted for it.
func receive(from, to *os.File) (guest.Secrets, error) {
	defer from.Close()
	defer to.Close()
	key, err := guest.NewSealKey()
	if err != nil {
		return guest.Secrets{}, err
	}
	if _, err := to.Write(key.Public()); err != nil {
		return guest.Secrets{}, fmt.Errorf("tell key: %w", err)
	}
	if err := to.Close(); err != nil {
		return guest.Secrets{}, fmt.Errorf("tell key: %w", err)
	}
	sealed, err := io.ReadAll(io.LimitReader(from, guest.MaxSealed+1))
	if err != nil {
		return guest.Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	return key.Open(sealed)
}

// input makes bytes the standard input, as a file in memory that is gone with its last
// reader.
func input(b []byte) error {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "input")
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return os.NewSyscallError("dup3", unix.Dup3(fd, 0, 0))
}
