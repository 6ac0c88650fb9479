// Package page serves what people open in a browser: the dashboard and the viewer,
// which come with the program. They are no secret: what they show is fetched under a
// ticket.
package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

// policy lets a page load what this server has, and nothing else: no script or style
// in the page itself, no other host, no frame around it. Pictures and media of its
// own making are blobs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; " +
	"font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Patterns of the routes.
const (
	dashboard = "GET /{$}"
	viewer    = "GET /view/{desktop}"
	assets    = "GET /assets/{file}"
)

// Register registers the pages in files.
func Register(t *route.Table, files fs.FS) error {
	for pattern, name := range map[string]string{dashboard: "index.html", viewer: "view.html"} {
		f, err := read(files, name)
		if err != nil {
			return err
		}
		t.Handle(pattern, route.Open, func(w http.ResponseWriter, r *http.Request) {
			// The address stays when the program is another one.
			f.serve(w, r, "no-cache")
		})
	}
	list, err := fs.ReadDir(files, "assets")
	if err != nil {
		return fmt.Errorf("list the pages' files: %w", err)
	}
	all := map[string]file{}
	for _, e := range list {
		if all[e.Name()], err = read(files, path.Join("assets", e.Name())); err != nil {
			return err
		}
	}
	t.Handle(assets, route.Open, func(w http.ResponseWriter, r *http.Request) {
		f, ok := all[r.PathValue("file")]
		if !ok {
			w.Header().Set("Cache-Control", "no-store")
			e := api.Errorf(api.CodeNotFound, "no such file: %s", r.URL.Path)
			e.Hint = "the page is of another version of this server: load it again"
			gate.Problem(w, r, e)
			return
		}
		// What is in it is in its name.
		f.serve(w, r, "public, max-age=31536000, immutable")
	})
	return nil
}

// file is one answer.
type file struct {
	data       []byte
	mime, etag string
}

func read(files fs.FS, name string) (file, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return file{}, fmt.Errorf("read a page: %w", err)
	}
	sum := sha256.Sum256(data)
	return file{data: data, mime: typeOf(name), etag: `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// typeOf does not depend on what the host says of types.
func typeOf(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		if typ := mime.TypeByExtension(ext); typ != "" {
			return typ
		}
		return "application/octet-stream"
	}
}

func (f file) serve(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	h.Set("Cache-Control", cache)
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.mime)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("ETag", f.etag)
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}
