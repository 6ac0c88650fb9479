package packages

import (
	"path"
	"strings"
)

// sh runs a script that is a constant, with arguments that it only quotes.
func sh(script string, args ...string) Command {
	return Command{Argv: append([]string{"/bin/sh", "-c", script, "packages"}, args...)}
}

// tool is what a language needs.
type tool struct {
	// there is a script that ends well where its manager is, packages what to
	// install where it is not.
	there    string
	packages []string
	// install is how packages get into a workspace.
	install func(workspace string, names []string) []Command
	// exports are what its programs need to know besides their path, as NAME, folder
	// below dir; bin is where its programs are, below the workspace.
	dir     string
	exports [][2]string
	bin     string
}

var tools = map[Manager]tool{
	Pip: {
		there: "python3 -c 'import ensurepip, venv'", packages: []string{"python3-venv"}, install: pip,
		dir: ".venv", bin: ".venv/bin", exports: [][2]string{{"VIRTUAL_ENV", ""}},
	},
	Npm: {
		there: "command -v npm", packages: []string{"npm"}, install: npm,
		dir: ".npm-global", bin: ".npm-global/bin", exports: [][2]string{{"NPM_CONFIG_PREFIX", ""}, {"NODE_PATH", "lib/node_modules"}},
	},
	Cargo: {
		there: "command -v cargo", packages: []string{"cargo"}, install: cargo,
		dir: ".cargo", bin: ".cargo/bin", exports: [][2]string{{"CARGO_INSTALL_ROOT", ""}},
	},
	Gem: {
		there: "command -v gem", packages: []string{"ruby"}, install: gem,
		dir: ".gem", bin: ".gem/bin", exports: [][2]string{{"GEM_HOME", ""}},
	},
	Go: {
		there: "command -v go", packages: []string{"golang-go"}, install: golang,
		dir: ".go", bin: ".go/bin", exports: [][2]string{{"GOBIN", "bin"}},
	},
}

// apt never asks, waits for whoever else installs, and takes names for nothing else:
// it would look for an unknown one as a pattern.
func apt(names []string) []Command {
	env := map[string]string{"DEBIAN_FRONTEND": "noninteractive"}
	options := []string{"-q", "-o", "DPkg::Lock::Timeout=120", "-o", "APT::Cmd::Pattern-Only=true", "-o", "Dpkg::Use-Pty=0"}
	update := append([]string{"apt-get", "update"}, options...)
	install := append(append([]string{"apt-get", "install"}, options...), "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", "--")
	return []Command{{Argv: update, Env: env, System: true}, {Argv: append(install, names...), Env: env, System: true}}
}

func pip(workspace string, names []string) []Command {
	venv := path.Join(workspace, ".venv")
	install := []string{
		path.Join(venv, "bin/python3"), "-m", "pip", "install", "--no-input", "--no-cache-dir", "--disable-pip-version-check",
		"--progress-bar", "off", "--",
	}
	return []Command{{Argv: []string{"python3", "-m", "venv", venv}}, {Argv: append(install, names...)}}
}

func npm(workspace string, names []string) []Command {
	install := []string{
		"npm", "install", "--global", "--prefix", path.Join(workspace, ".npm-global"), "--no-audit", "--no-fund", "--no-progress",
		"--no-update-notifier", "--",
	}
	return []Command{{Argv: append(install, names...)}}
}

// cargo installs one at a time: older ones take a version for one alone.
func cargo(workspace string, names []string) []Command {
	all := make([]Command, 0, len(names))
	for _, n := range names {
		argv := []string{"cargo", "install", "--locked", "--quiet", "--root", path.Join(workspace, ".cargo")}
		name, version, given := strings.Cut(n, "@")
		if given {
			argv = append(argv, "--version", version)
		}
		all = append(all, Command{Argv: append(argv, "--", name)})
	}
	return all
}

func gem(workspace string, names []string) []Command {
	dir := path.Join(workspace, ".gem")
	all := make([]Command, 0, len(names))
	for _, n := range names {
		argv := []string{"gem", "install", "--no-document", "--install-dir", dir, "--bindir", path.Join(dir, "bin")}
		name, version, given := strings.Cut(n, "@")
		if given {
			argv = append(argv, "--version", version)
		}
		all = append(all, Command{Argv: append(argv, name)})
	}
	return all
}

// golang installs one at a time: several must be of one module. Sources stay outside
// of the workspace.
func golang(workspace string, names []string) []Command {
	env := map[string]string{"GOBIN": path.Join(workspace, ".go/bin"), "GOFLAGS": "-modcacherw"}
	all := make([]Command, 0, len(names))
	for _, n := range names {
		all = append(all, Command{Argv: []string{"go", "install", "--", n}, Env: env})
	}
	return all
}

// exports is a shell's text that lets programs of the list be found.
func (w *work) exports() string {
	var text, bins strings.Builder
	for _, m := range languages {
		if len(*w.List.of(m)) == 0 {
			continue
		}
		t := tools[m]
		for _, e := range t.exports {
			text.WriteString("export " + e[0] + "='" + path.Join(w.Workspace, t.dir, e[1]) + "'\n")
		}
		bins.WriteString("'" + path.Join(w.Workspace, t.bin) + "':")
	}
	if bins.Len() > 0 {
		text.WriteString("export PATH=" + bins.String() + "\"$PATH\"\n")
	}
	return text.String()
}

// inEnvironment runs a program with what a workspace has.
const inEnvironment = `. "$0" && exec "$@"`

// Wrap is the argv that runs another with what is installed in a workspace.
func Wrap(workspace string, argv []string) []string {
	return append([]string{"/bin/sh", "-c", inEnvironment, Environment(workspace)}, argv...)
}
