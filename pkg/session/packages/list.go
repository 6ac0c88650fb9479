// Package packages installs what an environment asks for into a session's machine,
// by nothing but running programs there.
//
// Packages of the system go into the machine, those of languages into the workspace,
// where they outlive it. Each place has a marker with a digest of what was installed
// there, so that a machine that goes on installs nothing, and a restored workspace in
// a new machine installs packages of the system alone.
package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Manager is a program that installs packages.
type Manager string

// Managers, in the order in which they install.
const (
	Apt   Manager = "apt"
	Pip   Manager = "pip"
	Npm   Manager = "npm"
	Cargo Manager = "cargo"
	Gem   Manager = "gem"
	Go    Manager = "go"
)

// languages are the managers of what goes into the workspace.
var languages = []Manager{Pip, Npm, Cargo, Gem, Go}

// List is packages by manager, each as its manager names it, with a version at will:
//
//	apt    jq, jq=1.6-2.1, libc6:arm64, jq/bookworm-backports
//	pip    flask, flask[async]==3.0.0, requests>=2,<3
//	npm    typescript, typescript@5.4.2, @types/node@^20
//	cargo  ripgrep, ripgrep@14.1.0
//	gem    rake, rake@13.0.6
//	go     golang.org/x/tools/cmd/stringer, …/stringer@v0.20.0
//
// Names alone are taken: no addresses, no paths, no options.
type List struct {
	Apt, Pip, Npm, Cargo, Gem, Go []string
}

// Bounds of a list.
const (
	MaxNames = 200 // of one manager
	MaxName  = 200 // bytes of one name with its version
)

// NameError says that something cannot be installed by its name.
type NameError struct {
	Manager Manager
	Name    string
	Want    string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s package %q: want %s", e.Manager, e.Name, e.Want)
}

// of gives the place of a manager's names.
func (l *List) of(m Manager) *[]string {
	switch m {
	case Apt:
		return &l.Apt
	case Pip:
		return &l.Pip
	case Npm:
		return &l.Npm
	case Cargo:
		return &l.Cargo
	case Gem:
		return &l.Gem
	case Go:
		return &l.Go
	}
	return new([]string)
}

// Empty says that nothing is asked for.
func (l List) Empty() bool {
	return len(l.Apt)+len(l.Pip)+len(l.Npm)+len(l.Cargo)+len(l.Gem)+len(l.Go) == 0
}

type naming struct {
	shape *regexp.Regexp
	want  string
}

// names says how a manager's packages are named.
var names = sync.OnceValue(func() map[Manager]naming {
	return map[Manager]naming{
		// A trailing + or - would ask apt to install or remove; g++ is a name all the
		// same, and apt looks for names first.
		Apt: {regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*[a-z0-9+](:[a-z0-9-]*[a-z0-9])?(=[A-Za-z0-9.+~:-]*[A-Za-z0-9.~]|/[a-z0-9-]*[a-z0-9])?$`), "name, name=version or name/suite"},
		Pip: {regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?(` + pipVersion + `(,` + pipVersion + `)*)?$`), "name, name[extra] or name==version"},
		Npm: {regexp.MustCompile(`^(@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*(@[\^~]?[A-Za-z0-9][A-Za-z0-9.+-]*)?$`), "name, @scope/name or name@version"},

		Cargo: {regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(@[0-9][0-9A-Za-z.+-]*)?$`), "name or name@version"},
		Gem:   {regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(@[0-9][0-9A-Za-z.]*)?$`), "name or name@version"},
		Go:    {regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*(@[A-Za-z0-9][A-Za-z0-9.+-]*)?$`), "the path of a program, or path@version"},
	}
})

const pipVersion = `(===|==|~=|!=|<=|>=|<|>)[A-Za-z0-9.*+!_-]+`

// Validate joins the faults of a list.
func (l List) Validate() error {
	var faults []error
	for _, e := range l.Faults() {
		faults = append(faults, e)
	}
	return errors.Join(faults...)
}

// Faults are what no manager would take for the name of a package.
func (l List) Faults() []*NameError {
	var faults []*NameError
	for m, rule := range names() {
		all := *l.of(m)
		if len(all) > MaxNames {
			faults = append(faults, &NameError{m, fmt.Sprintf("… %d of them", len(all)), fmt.Sprintf("at most %d", MaxNames)})
			continue
		}
		for _, name := range all {
			if e := check(m, normal(m, name), rule.shape, rule.want); e != nil {
				e.Name = clip(name)
				faults = append(faults, e)
			}
		}
	}
	slices.SortFunc(faults, func(a, b *NameError) int { return strings.Compare(a.Error(), b.Error()) })
	return faults
}

func check(m Manager, name string, shape *regexp.Regexp, want string) *NameError {
	switch {
	case len(name) > MaxName:
		return &NameError{Manager: m, Want: fmt.Sprintf("at most %d bytes", MaxName)}
	// npm takes a leading hyphen for an option and such an ending for a file.
	case !shape.MatchString(name), strings.HasPrefix(name, "-"), m == Npm && archive().MatchString(name):
		return &NameError{Manager: m, Want: want}
	}
	return nil
}

var archive = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\.(tgz|tar|tar\.gz)$`) })

// clip cuts a name to what an error shows.
func clip(name string) string {
	if len(name) <= MaxName {
		return name
	}
	return strings.ToValidUTF8(name[:MaxName], "") + "…"
}

// Normal is the list's one spelling: sorted, without blanks and doubles.
func (l List) Normal() List {
	var n List
	for m := range names() {
		all := make([]string, 0, len(*l.of(m)))
		for _, name := range *l.of(m) {
			all = append(all, normal(m, name))
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 0 {
			*n.of(m) = all
		}
	}
	return n
}

var separators = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[-_.]+`) })

// normal is one spelling of a name.
func normal(m Manager, name string) string {
	name = strings.TrimSpace(name)
	switch m {
	case Pip: // PEP 503
		name = strings.Join(strings.Fields(name), "")
		end := strings.IndexAny(name, "[=<>!~")
		if end < 0 {
			end = len(name)
		}
		return strings.ToLower(separators().ReplaceAllString(name[:end], "-")) + name[end:]
	case Go:
		if name != "" && !strings.Contains(name, "@") {
			return name + "@latest"
		}
	case Apt, Npm, Cargo, Gem:
	}
	return name
}

// digests are what the markers of machine and workspace hold for a normal list. What
// was installed for one image is no good for another.
func (l List) digests(image string) (machine, workspace string) {
	machine = digest(image, l)
	l.Apt = nil
	return machine, digest(image, l)
}

func digest(image string, l List) string {
	var text strings.Builder
	fmt.Fprintf(&text, "image %q\n", image)
	for _, m := range append([]Manager{Apt}, languages...) {
		fmt.Fprintf(&text, "%s %q\n", m, *l.of(m))
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
