package host

import (
	"context"
	"io"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/tail"
	"github.com/deskfork/deskfork/pkg/api"
)

// Sources of logs.
const (
	LogSerial = "serial" // the guest's console
	LogQEMU   = "qemu"   // the hypervisor's standard error
)

// LogRequest says which log is read, and how.
type LogRequest struct {
	Source string // LogSerial or LogQEMU
	Lines  int    // from the end; negative: all
	Follow bool
	// Flush is called after each part. May be nil.
	Flush func() error
}

// Logs copies a log of a desktop to w. It may be followed until the machine ends.
// A machine that never came up has left its words in the desktop's failure.
func (h *Host) Logs(ctx context.Context, project, ref string, req LogRequest, w io.Writer) error {
	if err := h.whenReady(); err != nil {
		return err
	}
	d, err := h.find(project, ref)
	if err != nil {
		return err
	}
	_, m, v := d.Parts()
	if m == nil {
		e := api.Errorf(api.CodeNotFound, "desktop %s has no machine, so no logs", v.Name)
		if v.Failure != nil {
			e.Hint = "its failure carries what the hypervisor said"
		}
		return e
	}
	name := desk.SerialFile
	if req.Source == LogQEMU {
		name = desk.QEMUFile
	}
	path := filepath.Join(m.Info().Dir, name)
	if !tail.Exists(path) {
		return fault.NotFound("log", req.Source)
	}
	return tail.Copy(ctx, w, tail.Follow{
		Path: path, Lines: req.Lines, Go: req.Follow, Done: m.Done(), Flush: req.Flush,
	})
}
