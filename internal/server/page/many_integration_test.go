//go:build integration

package page_test

import (
	"encoding/json"
	"fmt"
	"image/color"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/server/page"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/browser"
	"github.com/deskfork/deskfork/web"
)

// crowd answers what the dashboard asks for, with many desktops.
type crowd struct {
	mu     sync.Mutex
	list   []api.Desktop // guarded by mu
	busy   bool          // guarded by mu; they use the processor
	events chan api.Event
	shots  atomic.Int64
	lists  atomic.Int64
}

func newCrowd(count int) *crowd {
	c := &crowd{events: make(chan api.Event, 1024)}
	tasks := []string{"checkout", "invoices", "crawler", "travel", "signup", "support", "report", "inbox"}
	for i := range count {
		c.list = append(c.list, api.Desktop{
			ID: fmt.Sprintf("d%011d", i), Name: fmt.Sprintf("%s-%d", tasks[i%len(tasks)], 1+i/len(tasks)), Project: "default",
			Image: "debian-xfce", Shape: "small", Origin: api.OriginTemplate, State: api.StateReady, Accelerator: "kvm",
			Labels: map[string]string{"team": []string{"red", "blue", "green"}[i%3], "run": fmt.Sprint(4700 + i/5)},
			// In the middle of an hour: no age changes while a test looks.
			Created: time.Now().Add(-30*time.Minute - time.Duration(1+i/9)*time.Hour), MemoryPrivate: int64(62+i*53%97) << 20,
		})
	}
	return c
}

// all lists the desktops. Those that run have used more since the last time, once
// they are busy.
func (c *crowd) all() api.DesktopList {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.list {
		if d := &c.list[i]; c.busy && d.State == api.StateReady {
			d.CPUSeconds += 0.4 + float64(i*31%17)/10
		}
	}
	return api.DesktopList{Desktops: slices.Clone(c.list)}
}

// change lets something happen to a desktop: what that is depends on n.
func (c *crowd) change(i, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.list[i]
	e := api.Event{Seq: uint64(n + 1), Time: time.Now(), Desktop: d.ID}
	control := func(in api.InControl) {
		d.InControl = &in
		e.Type, e.Data = "control.taken", map[string]any{"holder": in.Holder, "kind": string(in.Kind)}
	}
	switch n % 5 {
	case 0:
		control(api.InControl{Holder: fmt.Sprintf("agent-%d", n), Kind: api.ControlAgent})
	case 1:
		d.State, e.Type = api.StatePaused, "desktop.paused"
	case 2:
		control(api.InControl{Holder: "ada", Kind: api.ControlPerson})
	case 3:
		d.State, e.Type = api.StateSuspended, "desktop.suspended"
	default:
		d.State, d.Failure = api.StateFailed, &api.Error{Code: api.CodeGuestUnavail, Stage: "session", Detail: "the helper did not answer within 8 s"}
		e.Type, e.Data = "desktop.failed", map[string]any{"stage": d.Failure.Stage, "detail": d.Failure.Detail}
	}
	c.events <- e
}

// handler serves the pages, and the routes that they call.
func (c *crowd) handler(t *testing.T, shots [][]byte) http.Handler {
	t.Helper()
	files, err := web.Files()
	if err != nil {
		t.Fatal(err)
	}
	pages := table()
	if err := page.Register(pages, files); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Logf("answer: %v", err) // the browser may have gone
		}
	}
	mux.HandleFunc("GET /v1/view", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, api.View{Project: "default", Role: "admin", Expires: time.Now().Add(time.Hour)})
	})
	mux.HandleFunc("GET /v1/desktops", func(w http.ResponseWriter, _ *http.Request) {
		c.lists.Add(1)
		answer(w, c.all())
	})
	mux.HandleFunc("GET /v1/desktops/{desktop}", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, d := range c.list {
			if d.ID == r.PathValue("desktop") {
				answer(w, d)
			}
		}
	})
	mux.HandleFunc("GET /v1/desktops/{desktop}/screenshot", func(w http.ResponseWriter, r *http.Request) {
		c.shots.Add(1)
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "image/jpeg")
		id := r.PathValue("desktop")
		_, _ = w.Write(shots[int(id[len(id)-1]+id[len(id)-2]*2)%len(shots)]) // the browser may have gone
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		for err := flush(); err == nil; err = flush() {
			select {
			case e := <-c.events:
				b, _ := json.Marshal(e) // a plain struct
				fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, b)
			case <-r.Context().Done():
				return
			}
		}
	})
	return mux
}

// TestMany: with two hundred desktops the page asks for the pictures of those that
// can be seen alone, and draws those anew that have changed, and no others.
func TestMany(t *testing.T) {
	const count, changed = 200, 20
	c := newCrowd(count)
	var shots [][]byte
	for _, img := range screens(t) {
		p := &picture{base: img}
		if err := p.paint(color.RGBA{35, 35, 35, 255}); err != nil {
			t.Fatal(err)
		}
		shots = append(shots, p.data)
	}
	s := httptest.NewServer(c.handler(t, shots))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	script := browser.Start(t, "testdata/many.js", map[string]any{"server": s.URL, "count": count, "changed": changed, "pictures": t.ArtifactDir()}, 5*time.Minute)
	var step string
	script.Next(&step)
	for i := range changed {
		c.change(i*9, i)
	}
	script.Say("changed")
	var got struct {
		Cards, Nodes, Pictures, Requests int
		Touched                          []string
		Frames                           []float64
		Worst                            float64
	}
	script.Next(&got)
	c.mu.Lock()
	c.busy = true
	c.mu.Unlock()
	for i := range 10 { // more than are read one by one: two lists tell how busy they are
		c.change(2+i*3, changed+i)
	}
	script.Say("busy")
	script.Next(&step)
	for i := range 5 {
		c.change(4+i*4, changed+10+i)
	}
	script.Say("again")
	script.Wait()
	t.Logf("%d cards, %d nodes, %d pictures; scrolling through all: median frame %.1f ms, worst %.1f ms; %d lists, %d glances",
		got.Cards, got.Nodes, got.Pictures, got.Frames[len(got.Frames)/2], got.Worst, c.lists.Load(), c.shots.Load())
	if got.Cards != count || got.Nodes > count*60 {
		t.Errorf("%d cards of %d nodes", got.Cards, got.Nodes)
	}
	if len(got.Touched) != changed {
		t.Errorf("%d changed, and drawn anew were %d: %s", changed, len(got.Touched), strings.Join(got.Touched, ", "))
	}
	if got.Pictures > 40 {
		t.Errorf("%d pictures were fetched before anybody scrolled", got.Pictures)
	}
}
