package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// DefaultTimeout bounds a command whose context has no earlier deadline.
const DefaultTimeout = 10 * time.Second

// Config tunes a client. The zero value is ready.
type Config struct {
	// Timeout of one command. 0: DefaultTimeout.
	Timeout time.Duration
	// MaxLine is the longest message accepted, in bytes. 0: the constant MaxLine.
	MaxLine int
}

// Client is one connection to a QEMU. Safe for concurrent use; commands are
// written one at a time and QEMU runs them in that order.
type Client struct {
	conn    net.Conn
	cfg     Config
	version Version
	oob     bool // QEMU takes descriptors beside commands

	write chan struct{} // holds one token: the right to write
	done  chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	nextID  uint64
	pending map[uint64]chan *message
	subs    []*Subscription
	err     error // why the reader ended
}

// Dial connects to a QEMU's monitor socket and agrees on capabilities. Close
// ends what it started. ctx bounds the handshake alone.
func Dial(ctx context.Context, path string, cfg Config) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial qmp: %w", err)
	}
	return New(ctx, conn, cfg)
}

// New does the handshake over conn, which it owns from then on, and starts the
// reader. When it fails conn is closed.
func New(ctx context.Context, conn net.Conn, cfg Config) (*Client, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.MaxLine <= 0 {
		cfg.MaxLine = MaxLine
	}
	c := &Client{
		conn: conn, cfg: cfg,
		write: make(chan struct{}, 1), done: make(chan struct{}),
		pending: make(map[uint64]chan *message),
	}
	c.write <- struct{}{}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	r := bufio.NewReader(conn)
	if err := c.greet(ctx, r); err != nil {
		conn.Close()
		return nil, err
	}
	go c.read(r) // ends with the connection; Close waits for done
	if err := c.Execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// greet reads the banner. A QEMU that serves another client sends none.
func (c *Client) greet(ctx context.Context, r *bufio.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	m, err := readMessage(r, c.cfg.MaxLine)
	if !stop() {
		return fmt.Errorf("read qmp greeting: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("read qmp greeting: %w", err)
	}
	if m.QMP == nil {
		return fmt.Errorf("read qmp greeting: got %.80q", m.raw)
	}
	c.version = m.QMP.Version
	c.oob = slices.ContainsFunc(m.QMP.Capabilities, func(raw json.RawMessage) bool { return string(raw) == `"oob"` })
	return nil
}

// Version is what the greeting said.
func (c *Client) Version() Version { return c.version }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says, after Done, why the connection ended; it wraps ErrClosed.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for the reader. Commands in flight and
// later ones get ErrClosed. Idempotent.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Execute runs a command and decodes its return value into result unless that
// is nil. A refusal is an *Error. When the context or the timeout ends first
// the command may still take effect later.
func (c *Client) Execute(ctx context.Context, command string, args, result any) error {
	reply, err := c.roundTrip(ctx, command, args, nil)
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(reply.Return, result); err != nil {
		return fmt.Errorf("decode reply to %s: %w", command, err)
	}
	return nil
}

// SendFile gives QEMU a duplicate of f under name (command getfd), for
// commands that take "fd:NAME". Needs a unix socket.
func (c *Client) SendFile(ctx context.Context, name string, f *os.File) error {
	_, err := c.roundTrip(ctx, "getfd", map[string]string{"fdname": name}, f)
	return err
}

// HMP runs a command of the human monitor and returns its text.
func (c *Client) HMP(ctx context.Context, line string) (string, error) {
	var out string
	err := c.Execute(ctx, "human-monitor-command", map[string]string{"command-line": line}, &out)
	return out, err
}

func (c *Client) roundTrip(ctx context.Context, command string, args any, f *os.File) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	id, ch, err := c.register()
	if err != nil {
		return nil, fmt.Errorf("run qmp %s: %w", command, err)
	}
	defer c.forget(id)
	line, err := json.Marshal(request{Execute: command, Arguments: args, ID: id})
	if err != nil {
		return nil, fmt.Errorf("encode qmp %s: %w", command, err)
	}
	if err := c.send(ctx, append(line, '\n'), f); err != nil {
		return nil, fmt.Errorf("send qmp %s: %w", command, err)
	}
	select {
	case m := <-ch:
		return m, refusal(command, m)
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for reply to qmp %s: %w", command, ctx.Err())
	case <-c.done:
	}
	select {
	case m := <-ch: // the last words before the end, e.g. of quit
		return m, refusal(command, m)
	default:
		return nil, fmt.Errorf("wait for reply to qmp %s: %w", command, c.Err())
	}
}

func refusal(command string, m *message) error {
	if m.Error == nil {
		return nil
	}
	return &Error{Command: command, Class: m.Error.Class, Desc: m.Error.Desc}
}

func (c *Client) register() (uint64, chan *message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	c.nextID++
	ch := make(chan *message, 1)
	c.pending[c.nextID] = ch
	return c.nextID, ch, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}
