package registry

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Debian adds the Debian packages of a directory as a flat repository, /apt/ ./ to
// apt.
func (r *Registry) Debian(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no packages in %s: %w", dir, err)
	}
	var index bytes.Buffer
	for _, file := range files {
		control, err := exec.CommandContext(ctx, "dpkg-deb", "--field", file).Output()
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := sum256(content)[:16] + ".deb"
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, name, len(content), sum256(content))
		r.Add("/apt/"+name, content)
	}
	r.Add("/apt/Packages", index.Bytes())
	return nil
}
