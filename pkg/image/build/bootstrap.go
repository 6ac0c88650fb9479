package build

import (
	"fmt"
	"strings"
)

// Mirrors replaces the recipe's mirrors while packages are fetched. The image's own
// sources.list always names the recipe's.
type Mirrors struct {
	Debian   string // "" means the recipe's
	Security string // "" means the recipe's
}

// sources returns the lines of a sources.list.
func (r *Recipe) sources(m Mirrors) []string {
	components := strings.Join(r.Debian.Components, " ")
	mirror, security := r.Debian.Mirror, r.Debian.SecurityMirror
	if m.Debian != "" {
		mirror = m.Debian
	}
	if m.Security != "" && security != "" {
		security = m.Security
	}
	lines := []string{fmt.Sprintf("deb %s %s %s", mirror, r.Debian.Suite, components)}
	if r.Debian.Updates {
		lines = append(lines, fmt.Sprintf("deb %s %s-updates %s", mirror, r.Debian.Suite, components))
	}
	if security != "" {
		lines = append(lines, fmt.Sprintf("deb %s %s-security %s", security, r.Debian.Suite, components))
	}
	return lines
}

// bootstrapArgs are the arguments of mmdebstrap that install the recipe's packages into root.
func (r *Recipe) bootstrapArgs(root string, m Mirrors) []string {
	args := []string{
		"--variant=" + r.Debian.Variant,
		"--architectures=amd64",
		`--aptopt=APT::Install-Recommends "false"`,
		`--aptopt=Acquire::Languages "none"`,
		`--aptopt=Acquire::Retries "3"`,
		"--dpkgopt=force-unsafe-io", // a build that dies leaves no tree that matters
	}
	// Later patterns win: all that is left out first, then the exceptions.
	for _, p := range r.Exclude {
		args = append(args, "--dpkgopt=path-exclude="+p)
	}
	for _, p := range r.Include {
		args = append(args, "--dpkgopt=path-include="+p)
	}
	packages := append([]string{r.Kernel.Package}, r.Packages...)
	args = append(args, "--include="+strings.Join(packages, ","), r.Debian.Suite, root)
	return append(args, r.sources(m)...)
}
