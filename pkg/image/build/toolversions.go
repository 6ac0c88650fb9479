package build

import (
	"context"
	"os/exec"
	"strings"
)

// toolVersions notes the versions of the tools in the manifest, as far as they tell.
func (r *run) toolVersions(ctx context.Context) {
	for tool, flag := range map[string]string{"mmdebstrap": "--version", "mke2fs": "-V"} {
		out, err := exec.CommandContext(ctx, toolPath(tool), flag).CombinedOutput()
		if err != nil {
			continue // knowing is nice to have
		}
		first, _, _ := strings.Cut(string(out), "\n")
		r.manifest.Build.Tools[tool] = strings.TrimSpace(first)
	}
}
