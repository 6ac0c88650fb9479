package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Config of a Service. Its zero value acts as the present user.
type Config struct {
	Logger *slog.Logger  // nil: silent
	User   func() string // who acts when a request names nobody
}

// Service serves files.
type Service struct {
	cfg Config
	log *slog.Logger
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.User == nil {
		cfg.User = func() string { return "" }
	}
	return &Service{cfg: cfg, log: cfg.Logger}
}

// Routes are the operations of the service.
func (s *Service) Routes() mux.Router {
	return mux.Router{
		guest.OpFileStat:   mux.Typed(s.stat),
		guest.OpFileList:   mux.Streaming(1, s.list),
		guest.OpFileRead:   mux.Streaming(1, s.read),
		guest.OpFileWrite:  mux.Streaming(1, s.write),
		guest.OpFileMkdir:  mux.Typed(s.mkdir),
		guest.OpFileRemove: mux.Typed(s.remove),
		guest.OpFileRename: mux.Typed(s.rename),
		guest.OpFileChmod:  mux.Typed(s.chmod),
		guest.OpFileChown:  mux.Typed(s.chown),
		guest.OpTarOut:     mux.Streaming(1, s.tarOut),
		guest.OpTarIn:      mux.Streaming(1, s.tarIn),
		guest.OpWatch:      mux.Streaming(1, s.watch),
	}
}

// resolve finds who acts, and the path in full.
func (s *Service) resolve(p guest.PathParams) (account.User, string, error) {
	name := p.User
	if name == "" {
		name = s.cfg.User()
	}
	u, err := account.Lookup(name)
	if err != nil {
		return u, "", err
	}
	path, err := absolute(u, p.Path)
	return u, path, err
}

func absolute(u account.User, path string) (string, error) {
	const longest = 4096
	switch {
	case path == "":
		return "", invalid("the path is empty")
	case strings.ContainsRune(path, 0):
		return "", invalid("the path holds a NUL byte")
	case len(path) > longest:
		return "", invalid("the path is longer than " + strconv.Itoa(longest) + " bytes")
	case path == "~" || strings.HasPrefix(path, "~/"):
		return filepath.Join(u.Home, path[1:]), nil
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	}
	return filepath.Join(u.Home, path), nil
}

func invalid(message string) error { return &guest.Error{Code: guest.CodeInvalid, Message: message} }

func (s *Service) stat(_ context.Context, _ *mux.Call, p guest.PathParams) (guest.FileInfo, error) {
	u, path, err := s.resolve(p)
	if err != nil {
		return guest.FileInfo{}, err
	}
	return statAs(u, path)
}

func statAs(u account.User, path string) (info guest.FileInfo, err error) {
	err = u.Do(func() error {
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		info = describe(fi, path, &account.Names{})
		return nil
	})
	return info, err
}

func (s *Service) mkdir(_ context.Context, _ *mux.Call, p guest.MkdirParams) (guest.FileInfo, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return guest.FileInfo{}, err
	}
	mode := os.FileMode(p.Mode) & os.ModePerm
	if p.Mode == 0 {
		mode = 0o755
	}
	err = u.Do(func() error {
		if p.Parents {
			return os.MkdirAll(path, mode)
		}
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
		return os.Chmod(path, mode) // whatever the umask is
	})
	if err != nil {
		return guest.FileInfo{}, err
	}
	return statAs(u, path)
}

func (s *Service) remove(_ context.Context, _ *mux.Call, p guest.RemoveParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	if filepath.Dir(path) == path {
		return nil, invalid("the root directory cannot be removed")
	}
	return nil, u.Do(func() error {
		if !p.Recursive {
			return os.Remove(path)
		}
		if _, err := os.Lstat(path); err != nil {
			return err
		}
		return os.RemoveAll(path)
	})
}

func (s *Service) rename(_ context.Context, _ *mux.Call, p guest.RenameParams) (any, error) {
	u, from, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	to, err := absolute(u, p.To)
	if err != nil {
		return nil, fmt.Errorf("check new name: %w", err)
	}
	return nil, u.Do(func() error { return os.Rename(from, to) })
}

func (s *Service) chmod(_ context.Context, _ *mux.Call, p guest.ChmodParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	return nil, u.Do(func() error { return os.Chmod(path, unixMode(p.Mode)) })
}

func (s *Service) chown(_ context.Context, _ *mux.Call, p guest.ChownParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	uid, gid := -1, -1
	var errs []error
	if p.Owner != "" {
		owner, err := account.Lookup(p.Owner)
		errs = append(errs, err)
		uid = int(owner.UID)
	}
	if p.Group != "" {
		gid, err = account.LookupGroup(p.Group)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return nil, u.Do(func() error { return os.Lchown(path, uid, gid) })
}

// unixMode turns permission bits, set-id and sticky bits into Go's form.
func unixMode(m uint32) os.FileMode {
	mode := os.FileMode(m) & os.ModePerm
	for bit, flag := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if m&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
