package transfer

import (
	"io"
	"os"
	"time"
)

// Stream moves one stream of bytes between a server and a file.
type Stream struct {
	Progress io.Writer        // of a terminal; nil: nothing is shown
	Now      func() time.Time // nil: time.Now
}

// Save makes a file of what write writes. The file appears when all has come,
// and only its owner may read it.
func (s Stream) Save(name string, write func(io.Writer) error) error {
	return saveBy(name, 0o600, func(w io.Writer) error { return s.Write(w, write) })
}

// Write shows how far write is, which writes to w.
func (s Stream) Write(w io.Writer, write func(io.Writer) error) error {
	m := newMeter(s.Progress, s.Now)
	defer m.done()
	return write(m.writer(w))
}

// Load hands a file to read.
func (s Stream) Load(name string, read func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return local(err)
	}
	defer f.Close()
	return s.Read(f, read)
}

// Read shows how far read is, which reads from r.
func (s Stream) Read(r io.Reader, read func(io.Reader) error) error {
	m := newMeter(s.Progress, s.Now)
	defer m.done()
	return read(m.reader(r))
}
