package build

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed initramfs/init
var initScript []byte

// busyboxPath is where the recipe's busybox-static lies; it runs the initramfs.
const busyboxPath = "/bin/busybox"

// kernelVersion finds the only kernel in the tree at root.
func kernelVersion(root string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return "", fmt.Errorf("find kernel: %w", err)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("find kernel: %d kernels in /boot, want one", len(found))
	}
	return strings.TrimPrefix(filepath.Base(found[0]), "vmlinuz-"), nil
}

// initramfs makes the entries of the initramfs: busybox, the modules with what they
// depend on in the order of loading, and a script that mounts the root disk.
func initramfs(root, version string, modules []string) ([]cpioEntry, error) {
	busybox, err := os.ReadFile(filepath.Join(root, busyboxPath))
	if err != nil {
		return nil, fmt.Errorf("read busybox, of package busybox-static: %w", err)
	}
	moduleDir := filepath.Join(root, "lib", "modules", version)
	deps, err := os.ReadFile(filepath.Join(moduleDir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("read module dependencies: %w", err)
	}
	builtin, err := os.ReadFile(filepath.Join(moduleDir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("read built-in modules: %w", err)
	}
	order, err := loadOrder(string(deps), string(builtin), modules)
	if err != nil {
		return nil, err
	}
	entries := []cpioEntry{
		{name: "init", mode: cpioFile | 0o755, data: initScript},
		{name: "bin", mode: cpioDir | 0o755},
		{name: "bin/busybox", mode: cpioFile | 0o755, data: busybox},
	}
	for _, applet := range []string{"insmod", "mount", "poweroff", "sh", "switch_root", "usleep"} {
		entries = append(entries, cpioEntry{name: "bin/" + applet, mode: cpioLink | 0o777, data: []byte("busybox")})
	}
	for _, dir := range []string{"dev", "modules", "proc", "root", "sys"} {
		entries = append(entries, cpioEntry{name: dir, mode: cpioDir | 0o755})
	}
	var names strings.Builder
	for _, m := range order {
		data, err := os.ReadFile(filepath.Join(moduleDir, filepath.FromSlash(m)))
		if err != nil {
			return nil, fmt.Errorf("read module: %w", err)
		}
		entries = append(entries, cpioEntry{name: "modules/" + path.Base(m), mode: cpioFile | 0o644, data: data})
		names.WriteString(path.Base(m) + "\n")
	}
	return append(entries, cpioEntry{name: "modules/order", mode: cpioFile | 0o644, data: []byte(names.String())}), nil
}

// loadOrder returns the files of modules and of what they depend on, dependencies first.
// deps is a modules.dep, builtin a modules.builtin (modules.dep(5)); a built-in module
// needs no loading.
func loadOrder(deps, builtin string, modules []string) ([]string, error) {
	files := make(map[string]string)      // by name
	requires := make(map[string][]string) // by file, dependencies in the order of use
	for line := range strings.Lines(deps) {
		file, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		files[moduleName(file)] = file
		requires[file] = strings.Fields(list)
	}
	builtins := make(map[string]bool)
	for line := range strings.Lines(builtin) {
		builtins[moduleName(strings.TrimSpace(line))] = true
	}
	var order []string
	var errs []error
	for _, m := range modules {
		name := moduleName(m)
		file, ok := files[name]
		if !ok {
			if !builtins[name] {
				errs = append(errs, fmt.Errorf("find kernel module %s: not in the kernel package or excluded", m))
			}
			continue
		}
		// modules.dep lists the nearest dependency first.
		for _, f := range slices.Backward(append([]string{file}, requires[file]...)) {
			if !slices.Contains(order, f) {
				order = append(order, f)
			}
		}
	}
	return order, errors.Join(errs...)
}

// moduleName is a module's name as the kernel writes it.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}
