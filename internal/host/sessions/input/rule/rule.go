// Package rule says what inputs of sessions may be called, and where they may come
// from.
package rule

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// URL reports why an address cannot be fetched from.
func URL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL: %w", err)
	case u.Scheme == "file":
		return errors.New("files are not read from the host: upload it instead")
	case u.Scheme != "https" || u.Host == "" || u.User != nil:
		return errors.New("want https://HOST/PATH, without a user")
	}
	return nil
}

// Bounds of names in bytes.
const (
	maxName    = 1024
	maxSegment = 255
)

// Names says of each name why a file cannot have it below a directory, nil where it
// can. Of two that do not go together the latter is at fault.
func Names(names []string) []error {
	faults := make([]error, len(names))
	taken, dirs := map[string]bool{}, map[string]bool{}
	for i, name := range names {
		err := checkName(name)
		switch {
		case err != nil:
		case taken[name] || dirs[name]:
			err = errors.New("another one has this name")
		case slices.ContainsFunc(parents(name), func(dir string) bool { return taken[dir] }):
			err = errors.New("another one is a file where this one needs a directory")
		}
		if err != nil {
			faults[i] = err
			continue
		}
		taken[name] = true
		for _, dir := range parents(name) {
			dirs[dir] = true
		}
	}
	return faults
}

func parents(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	return all
}

func checkName(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("a name has 1 to %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`):
		return errors.New("a name is UTF-8 without control characters and backslashes")
	case path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return errors.New("want a relative path without . and .., one that leads nowhere else")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxSegment {
			return fmt.Errorf("%.40q… has more than %d bytes", part, maxSegment)
		}
	}
	return nil
}
