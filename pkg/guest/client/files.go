package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Files reaches the guest's file system, as the handshake's user unless As
// says otherwise. Paths are absolute, or relative to that user's home, which ~
// names too. Streams run until they are closed; ctx bounds the opening alone
// where a stream is returned, and everything where none is.
type Files struct {
	c    *Client
	user string
}

// As returns the same files seen as another user, e.g. root.
func (f *Files) As(user string) *Files { return &Files{c: f.c, user: user} }

func (f *Files) at(path string) guest.PathParams { return guest.PathParams{Path: path, User: f.user} }

// Stat describes a path; a link is not followed.
func (f *Files) Stat(ctx context.Context, path string) (fi guest.FileInfo, err error) {
	return fi, f.c.call(ctx, guest.OpFileStat, f.at(path), &fi)
}

// List returns the entries of a directory by name, with recursion each
// directory followed by its own entries.
func (f *Files) List(ctx context.Context, path string, recursive bool) ([]guest.FileInfo, error) {
	const op = guest.OpFileList
	p, err := f.c.open(ctx, op, guest.ListParams{PathParams: f.at(path), Recursive: recursive}, 1)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	var list []guest.FileInfo
	dec := json.NewDecoder(bufio.NewReader(onlyReader{p.Streams[0]}))
	for {
		var fi guest.FileInfo
		if err = dec.Decode(&fi); err != nil {
			break
		}
		list = append(list, fi)
	}
	if !errors.Is(err, io.EOF) && isForeign(err) {
		p.Cancel()
		return nil, fmt.Errorf("%s: decode entry: %w", op, err)
	}
	return list, await(ctx, p, op, nil)
}

// isForeign tells bytes that make no sense from a stream that broke, of which
// the answer says more.
func isForeign(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// Read streams n bytes of a file from off on; a negative n means all. The
// reader must be closed. An error of the guest amid the bytes comes from Read.
func (f *Files) Read(ctx context.Context, path string, off, n int64) (io.ReadCloser, guest.FileInfo, error) {
	var fi guest.FileInfo
	st, err := f.stream(ctx, guest.OpFileRead, guest.ReadParams{PathParams: f.at(path), Offset: off, N: n}, &fi)
	if err != nil {
		return nil, fi, err
	}
	return st, fi, nil
}

// stream opens a stream that runs on after the answer.
func (f *Files) stream(ctx context.Context, op string, params, out any) (*mux.Stream, error) {
	p, err := f.c.open(ctx, op, params, 1)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, p, op, out); err != nil {
		return nil, err
	}
	return p.Streams[0], nil
}

// WriteOptions say how a file is written. Without Append and Offset the file
// is replaced as a whole, when its last byte has come; a broken upload leaves
// it as it was. Append and Offset write in place.
type WriteOptions struct {
	Mode        uint32 // 0: as it was, else 0644
	User        string // who writes; empty: as Files says
	Append      bool
	Offset      int64 // above 0: overwrite from there on
	Exclusive   bool  // refuse with CodeExists if the file exists
	MakeParents bool
}

// Write streams r into a file, with flat memory at both ends.
func (f *Files) Write(ctx context.Context, path string, o WriteOptions, r io.Reader) (fi guest.FileInfo, err error) {
	params := guest.WriteParams{
		PathParams: f.at(path), Mode: o.Mode, Append: o.Append, Offset: o.Offset,
		Exclusive: o.Exclusive, MakeParents: o.MakeParents,
	}
	if o.User != "" {
		params.User = o.User
	}
	return fi, f.send(ctx, guest.OpFileWrite, params, r, &fi)
}

// send opens a request, streams r into it and returns its answer. A fault of r
// reaches the guest as a broken stream.
func (f *Files) send(ctx context.Context, op string, params any, r io.Reader, out any) error {
	p, err := f.c.open(ctx, op, params, 1)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	st := p.Streams[0]
	from := &faulty{r: r}
	_, err = io.CopyBuffer(onlyWriter{st}, from, make([]byte, 64<<10))
	if err == nil {
		err = st.CloseWrite()
	}
	if from.err != nil {
		p.Cancel()
		return fmt.Errorf("%s: read what is sent: %w", op, from.err)
	}
	// A stream that broke has its reason in the answer.
	if answer := await(ctx, p, op, out); answer != nil {
		return answer
	}
	if err != nil && !errors.Is(err, mux.ErrStopped) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// faulty remembers that it was the reader that failed.
type faulty struct {
	r   io.Reader
	err error
}

func (f *faulty) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// Mkdir makes a directory with permission bits mode (0: 0755). With parents,
// missing ones are made too, and a directory that exists is no error.
func (f *Files) Mkdir(ctx context.Context, path string, mode uint32, parents bool) (fi guest.FileInfo, err error) {
	return fi, f.c.call(ctx, guest.OpFileMkdir, guest.MkdirParams{PathParams: f.at(path), Mode: mode, Parents: parents}, &fi)
}

// Remove removes a file or an empty directory, or with recursive a whole tree.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	return f.c.call(ctx, guest.OpFileRemove, guest.RemoveParams{PathParams: f.at(path), Recursive: recursive}, nil)
}

// Rename moves from to to within one file system.
func (f *Files) Rename(ctx context.Context, from, to string) error {
	return f.c.call(ctx, guest.OpFileRename, guest.RenameParams{PathParams: f.at(from), To: to}, nil)
}

// Chmod sets permission bits.
func (f *Files) Chmod(ctx context.Context, path string, mode uint32) error {
	return f.c.call(ctx, guest.OpFileChmod, guest.ChmodParams{PathParams: f.at(path), Mode: mode}, nil)
}

// Chown sets owner and group by name or number; an empty one stays.
func (f *Files) Chown(ctx context.Context, path, owner, group string) error {
	return f.c.call(ctx, guest.OpFileChown, guest.ChownParams{PathParams: f.at(path), Owner: owner, Group: group}, nil)
}

// TarOut streams a directory as an archive with names relative to it, or one
// file under its own name. The reader must be closed; only io.EOF says that
// the archive is whole.
func (f *Files) TarOut(ctx context.Context, path string) (io.ReadCloser, error) {
	st, err := f.stream(ctx, guest.OpTarOut, f.at(path), nil)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// TarIn unpacks an archive below dir, which is made if it is missing. Entries
// that would leave dir, devices and pipes are refused with CodeInvalid.
func (f *Files) TarIn(ctx context.Context, dir string, r io.Reader) (res guest.TarResult, err error) {
	return res, f.send(ctx, guest.OpTarIn, f.at(dir), r, &res)
}

// Watch tells of changes of a file or directory until ctx ends, the path
// itself is removed or the watch fails; the channel is then closed. "overflow"
// says that changes were missed, also by a lost connection: list again then.
func (f *Files) Watch(ctx context.Context, path string, recursive bool) (<-chan guest.FileChange, error) {
	params := guest.WatchParams{PathParams: f.at(path), Recursive: recursive}
	st, err := f.stream(ctx, guest.OpWatch, params, nil)
	if err != nil {
		return nil, err
	}
	changes := make(chan guest.FileChange)
	// The goroutine's end is the channel's close, which the caller waits for.
	go f.follow(ctx, st, params, changes)
	return changes, nil
}

func (f *Files) follow(ctx context.Context, st *mux.Stream, params guest.WatchParams, to chan<- guest.FileChange) {
	defer close(to)
	for {
		err := forward(ctx, st, to)
		if !errors.Is(err, ErrLinkLost) || ctx.Err() != nil {
			return
		}
		if st, err = f.stream(ctx, guest.OpWatch, params, nil); err != nil {
			return
		}
		select {
		case to <- guest.FileChange{Op: "overflow", Path: params.Path}:
		case <-ctx.Done():
		}
	}
}

func forward(ctx context.Context, st *mux.Stream, to chan<- guest.FileChange) error {
	hangUp := func() { _ = st.Close() } // a lost link needs no close
	defer hangUp()
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	dec := json.NewDecoder(onlyReader{st})
	for {
		var change guest.FileChange
		if err := dec.Decode(&change); err != nil {
			return err
		}
		select {
		case to <- change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
