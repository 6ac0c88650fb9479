package display

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// backlog bounds requests that wait to be written to a helper.
const backlog = 256

// link is the connection with one helper process.
type link struct {
	proc *Process
	conn *guest.HelperConn
	send chan guest.HelperMessage
	done chan struct{} // closed when the helper can no longer be heard

	mu      sync.Mutex
	lastID  uint64
	heard   time.Time
	pending map[uint64]chan guest.HelperMessage
}

func newLink(p *Process) *link {
	return &link{
		proc: p, conn: guest.NewHelperConn(p.Out, p.In),
		send: make(chan guest.HelperMessage, backlog), done: make(chan struct{}),
		heard: time.Now(), pending: map[uint64]chan guest.HelperMessage{},
	}
}

// run moves messages until the helper's output ends. ready is called once, told
// with each message that answers nothing.
func (l *link) run(ready func(guest.HelperHello), told func(guest.HelperMessage)) error {
	var writing sync.WaitGroup
	writing.Go(l.write)
	err := l.read(ready, told)
	close(l.done)
	l.proc.Kill()
	l.proc.In.Close()
	writing.Wait()
	return err
}

func (l *link) write() {
	for {
		select {
		case m := <-l.send:
			if l.conn.Write(m) != nil {
				l.proc.Kill() // the reading side tells why
				return
			}
		case <-l.done:
			return
		}
	}
}

func (l *link) read(ready func(guest.HelperHello), told func(guest.HelperMessage)) error {
	first, err := l.conn.Read()
	if err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	var hello guest.HelperHello
	if err := json.Unmarshal(first.Result, &hello); err != nil || first.ID != 0 {
		return fmt.Errorf("read greeting: %w", guest.ErrFrame)
	}
	if hello.Protocol != guest.HelperProtocol {
		return fmt.Errorf("helper speaks protocol %d, not %d", hello.Protocol, guest.HelperProtocol)
	}
	ready(hello)
	for {
		m, err := l.conn.Read()
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		l.mu.Lock()
		l.heard = time.Now()
		ch := l.pending[m.ID]
		delete(l.pending, m.ID)
		l.mu.Unlock()
		switch {
		case ch != nil:
			ch <- m // buffered, and sent to once
		case m.ID == 0:
			told(m)
		}
	}
}

func (l *link) silent() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.heard)
}

func (l *link) ask(ctx context.Context, m guest.HelperMessage) (guest.HelperMessage, error) {
	ch := make(chan guest.HelperMessage, 1)
	l.mu.Lock()
	if len(l.pending) == 0 {
		l.heard = time.Now() // it had nothing to say until now
	}
	l.lastID++
	m.ID = l.lastID
	l.pending[m.ID] = ch
	l.mu.Unlock()
	select {
	case <-l.done:
		return m, noDisplay(m.Op)
	default:
	}
	select {
	case l.send <- m:
	default:
		l.forget(m.ID)
		return m, &guest.Error{Code: guest.CodeBusy, Message: m.Op + ": too many requests wait for the desktop"}
	}
	select {
	case res := <-ch:
		if res.Error != nil {
			return res, res.Error
		}
		return res, nil
	case <-l.done:
		return m, noDisplay(m.Op)
	case <-ctx.Done():
		l.forget(m.ID)
		l.cancel(m.ID)
		return m, fmt.Errorf("%s: %w", m.Op, context.Cause(ctx))
	}
}

func (l *link) forget(id uint64) {
	l.mu.Lock()
	delete(l.pending, id)
	l.mu.Unlock()
}

// cancel tells the helper; when it reads nothing, it cannot be told.
func (l *link) cancel(id uint64) {
	params, err := json.Marshal(struct {
		ID uint64 `json:"id"`
	}{id})
	if err != nil {
		return
	}
	select {
	case l.send <- guest.HelperMessage{ID: id, Op: guest.OpCancel, Params: params}:
	default:
	}
}
