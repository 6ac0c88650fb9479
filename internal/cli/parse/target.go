package parse

import "strings"

// Target is one side of a copy.
type Target struct {
	Desktop string // id or name; empty: this machine
	Path    string // "-" on this machine: standard input or output
}

// Remote says that the target is in a desktop.
func (t Target) Remote() bool { return t.Desktop != "" }

// Stdio says that the target is standard input or output.
func (t Target) Stdio() bool { return t.Desktop == "" && t.Path == "-" }

// Parse reads "-", a local path or D:path. What begins with / or . is
// local, so that ./a:b names a file with a colon.
func Parse(s string) (Target, error) {
	desktop, path, remote := strings.Cut(s, ":")
	switch {
	case s == "":
		return Target{}, invalid("a path is empty")
	case strings.ContainsRune(s, 0):
		return Target{}, invalid("path %q holds a NUL byte", s)
	case !remote || s[0] == '/' || s[0] == '.':
		return Target{Path: s}, nil
	case !Ref(desktop):
		return Target{}, invalid("%q does not name a desktop; write ./%s for a local file", desktop, s)
	case path == "":
		return Target{}, invalid("%q has no path; write %s:/path", s, desktop)
	}
	return Target{Desktop: desktop, Path: path}, nil
}

// Ref says that s can be the id or name of a desktop: 1 to 63 of a-z, 0-9 and
// inner hyphens.
func Ref(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
