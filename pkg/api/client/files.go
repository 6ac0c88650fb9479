package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/sse"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Files reads and writes the guest's file system. Paths are absolute, or
// relative to the user's home. Bodies are streams: size costs no memory.
type Files struct{ d *Desktop }

func (f *Files) call(method, tail, path string) wire.Call {
	return wire.Call{Method: method, Path: f.d.path(tail), Query: url.Values{"path": {path}}}
}

func (f *Files) stream(ctx context.Context, k wire.Call) (io.ReadCloser, error) {
	resp, err := f.d.c.server.Open(ctx, k)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Open reads a file. The caller closes it; a stream that breaks off ends in
// io.ErrUnexpectedEOF, or in the *api.Error that says why, never in io.EOF.
func (f *Files) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return f.stream(ctx, f.call(http.MethodGet, "/files", path))
}

// OpenRange reads length bytes from an offset (length < 0: to the end).
func (f *Files) OpenRange(ctx context.Context, path string, offset, length int64) (io.ReadCloser, error) {
	k := f.call(http.MethodGet, "/files", path)
	r := fmt.Sprintf("bytes=%d-", offset)
	if length >= 0 {
		r += strconv.FormatInt(offset+length-1, 10)
	}
	k.Header = http.Header{"Range": {r}}
	return f.stream(ctx, k)
}

// Read reads a whole file into memory.
func (f *Files) Read(ctx context.Context, path string) ([]byte, error) {
	r, err := f.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, f.d.c.server.Fault(ctx, fmt.Errorf("read %s: %w", path, err))
	}
	return data, nil
}

// WriteOptions changes how a file is written.
type WriteOptions struct {
	Mode    uint32 // permission bits; 0: 0644, or those of the file that is replaced
	Parents bool   // make missing directories
	User    string // owner; default: the desktop's user
	Size    int64  // of the content when it is known, so that a disk that is too small says so at once
}

// Write writes a file. It replaces an old one at once when all has come, and
// leaves it as it was when not.
func (f *Files) Write(ctx context.Context, path string, content io.Reader, opts WriteOptions) (api.FileInfo, error) {
	k := f.call(http.MethodPut, "/files", path)
	if opts.Mode != 0 {
		k.Query.Set("mode", fmt.Sprintf("%04o", opts.Mode))
	}
	if opts.Parents {
		k.Query.Set("parents", "true")
	}
	if opts.User != "" {
		k.Query.Set("user", opts.User)
	}
	k.Header = http.Header{"Content-Type": {"application/octet-stream"}}
	k.Body, k.Size = content, opts.Size
	return wire.Fetch[api.FileInfo](ctx, f.d.c.server, k)
}

// Stat describes an entry; a symlink is described itself.
func (f *Files) Stat(ctx context.Context, path string) (api.FileInfo, error) {
	return wire.Fetch[api.FileInfo](ctx, f.d.c.server, f.call(http.MethodGet, "/stat", path))
}

// List lists a directory.
func (f *Files) List(ctx context.Context, path string) ([]api.FileInfo, error) {
	list, err := wire.Fetch[api.FileList](ctx, f.d.c.server, f.call(http.MethodGet, "/list", path))
	return list.Entries, err
}

// Mkdir makes a directory.
func (f *Files) Mkdir(ctx context.Context, dir api.Mkdir) error {
	return f.d.c.server.Run(ctx, wire.Call{Method: http.MethodPost, Path: f.d.path("/mkdir"), JSON: dir})
}

// Rename moves an entry.
func (f *Files) Rename(ctx context.Context, from, to string) error {
	return f.d.c.server.Run(ctx, wire.Call{Method: http.MethodPost, Path: f.d.path("/rename"), JSON: api.Rename{From: from, To: to}})
}

// Chmod sets permission bits.
func (f *Files) Chmod(ctx context.Context, path string, mode uint32) error {
	return f.d.c.server.Run(ctx, wire.Call{Method: http.MethodPost, Path: f.d.path("/chmod"), JSON: api.Chmod{Path: path, Mode: mode}})
}

// Remove removes a file or an empty directory; recursive, whatever is there.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	k := f.call(http.MethodDelete, "/files", path)
	if recursive {
		k.Query.Set("recursive", "true")
	}
	return f.d.c.server.Run(ctx, k)
}

// Archive reads what is in a directory as tar, with names relative to it, or one
// file under its own name. The caller closes it.
func (f *Files) Archive(ctx context.Context, path string) (io.ReadCloser, error) {
	return f.stream(ctx, f.call(http.MethodGet, "/archive", path))
}

// Extract unpacks a tar stream into a directory, which is made when missing.
func (f *Files) Extract(ctx context.Context, dir string, tar io.Reader) error {
	k := f.call(http.MethodPut, "/archive", dir)
	k.Header = http.Header{"Content-Type": {"application/x-tar"}}
	k.Body = tar
	return f.d.c.server.Run(ctx, k)
}

// Watch yields changes below a path until ctx ends or the loop is left. A
// broken stream yields its error and ends: changes meanwhile would be missed.
func (f *Files) Watch(ctx context.Context, path string, recursive bool) iter.Seq2[api.FileChange, error] {
	k := f.call(http.MethodGet, "/watch", path)
	if recursive {
		k.Query.Set("recursive", "true")
	}
	return func(yield func(api.FileChange, error) bool) {
		resp, err := f.d.c.server.Open(ctx, k)
		if err != nil {
			yield(api.FileChange{}, err)
			return
		}
		defer resp.Body.Close()
		for m, err := range sse.Messages(resp.Body) {
			var change api.FileChange
			switch {
			case err != nil:
				err = f.d.c.server.Fault(ctx, err)
			case m.Kind == "error":
				err = problemIn(m)
			default:
				err = m.Decode(&change)
			}
			if err != nil {
				yield(change, err)
				return
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}
