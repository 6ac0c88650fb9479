package account

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
)

// Session is the X session of the desktop's user, as its programs need to know
// it.
type Session struct {
	User       string // whose session it is; empty: there is none
	Display    string // e.g. :0
	XAuthority string // file
	RuntimeDir string // default: /run/user/UID
	Lang       string // default: C.UTF-8
}

// Environ is the environment of a program that u runs: what a login would
// give, then each layer over it. Programs of the session's user find the
// session's display and bus.
func Environ(u User, s Session, layers ...map[string]string) []string {
	path := "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
	if u.UID == 0 {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	lang := s.Lang
	if lang == "" {
		lang = "C.UTF-8"
	}
	env := map[string]string{
		"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell, "PATH": path, "LANG": lang,
	}
	if s.User != "" && s.User == u.Name {
		run := s.RuntimeDir
		if run == "" {
			run = filepath.Join("/run/user", strconv.FormatUint(uint64(u.UID), 10))
		}
		env["XDG_RUNTIME_DIR"] = run
		env["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + filepath.Join(run, "bus")
		if s.Display != "" {
			env["DISPLAY"] = s.Display
		}
		if s.XAuthority != "" {
			env["XAUTHORITY"] = s.XAuthority
		}
	}
	for _, l := range layers {
		maps.Copy(env, l)
	}
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}
