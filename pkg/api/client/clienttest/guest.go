package clienttest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// Guest is what a callback may do to a desktop. It holds the server's lock.
type Guest struct{ g *guest }

// AddWindow puts a window on top.
func (g *Guest) AddWindow(w api.Window) { g.g.windows = append(g.g.windows, w) }

// CloseWindow closes the windows of a title.
func (g *Guest) CloseWindow(title string) {
	g.g.windows = slices.DeleteFunc(g.g.windows, func(w api.Window) bool { return w.Title == title })
}

// Windows lists the windows.
func (g *Guest) Windows() []api.Window { return slices.Clone(g.g.windows) }

// WriteFile writes a file.
func (g *Guest) WriteFile(path string, content []byte) {
	g.g.files[path] = &file{content: content, mode: 0o644}
}

// Actions lists what a desktop was sent.
func (s *Server) Actions(ref string) []api.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(ref)
	if problem != nil {
		return nil
	}
	return slices.Clone(g.actions)
}

// SetFailure makes a desktop a failed one.
func (s *Server) SetFailure(ref string, problem *api.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, missing := s.find(ref); missing == nil {
		g.info.State, g.info.Failure = api.StateFailed, problem
	}
}

func (s *Server) routeGuest(m *http.ServeMux) {
	const d = "/v1/desktops/{d}"
	m.HandleFunc("POST "+d+"/input", s.at(s.input))
	m.HandleFunc("GET "+d+"/screenshot", s.screenshot)
	m.HandleFunc("GET "+d+"/screen/wait", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		return reply{body: api.WaitReply{Seq: g.seq}}, nil
	}))
	m.HandleFunc("GET "+d+"/pointer", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		return reply{body: g.pointer}, nil
	}))
	m.HandleFunc("PUT "+d+"/display", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Display](r)
		g.info.Display = in
		return reply{body: in}, problem
	}))
	m.HandleFunc("PUT "+d+"/keyboard", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Keyboard](r)
		g.info.Keyboard = in.Layout
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("GET "+d+"/clipboard", s.getClipboard)
	m.HandleFunc("PUT "+d+"/clipboard", s.at(setClipboard))
	m.HandleFunc("GET "+d+"/windows", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		return reply{body: api.WindowList{Windows: g.windows}}, nil
	}))
	m.HandleFunc("POST "+d+"/windows/{w}", s.at(changeWindow))
	m.HandleFunc("POST "+d+"/launch", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Launch](r)
		if problem == nil && s.onLaunch != nil {
			s.onLaunch(&Guest{g}, in)
		}
		return reply{body: api.Launched{PID: 4242}}, problem
	}))
	m.HandleFunc("POST "+d+"/tickets", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.CreateTicket](r)
		t := api.Ticket{ID: "t1", Ticket: "k1", URL: fmt.Sprintf("%s/preview/k1/?d=%s&port=%d", s.URL, g.info.ID, in.Port), Port: in.Port, Expires: epoch()}
		if in.Kind == api.TicketView {
			t.URL, t.Role = fmt.Sprintf("%s/view/%s#ticket=k1", s.URL, g.info.ID), in.Role
		}
		return reply{http.StatusCreated, t}, problem
	}))
	s.routeControl(m)
	m.HandleFunc("GET "+d+"/tcp/{port}", s.tcp)
	s.routeFiles(m)
	s.routeExecs(m)
}

func (s *Server) input(g *guest, r *http.Request) (reply, *api.Error) {
	in, problem := read[api.InputBatch](r)
	if problem != nil {
		return reply{}, problem
	}
	out := api.InputReply{Results: []api.ActionResult{}, Width: g.info.Display.Width, Height: g.info.Display.Height}
	for _, a := range in.Actions {
		if a.X != nil && (*a.X < 0 || *a.X >= out.Width) {
			out.Error = api.Errorf(api.CodeInvalid, "x %d is off the screen of %d pixels", *a.X, out.Width)
			break
		}
		if a.X != nil && a.Y != nil {
			g.pointer = api.Point{X: *a.X, Y: *a.Y}
		}
		g.actions = append(g.actions, a)
		g.seq++
		if s.onAction != nil {
			s.onAction(&Guest{g}, a)
		}
		out.Results = append(out.Results, api.ActionResult{Kind: a.Kind, Effect: api.EffectConfirmed, How: "rfb"})
	}
	out.Seq = g.seq
	return reply{body: out}, nil
}

func (s *Server) screenshot(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(r.PathValue("d"))
	if problem != nil {
		refuse(w, problem)
		return
	}
	etag := fmt.Sprintf("%q", strconv.FormatUint(g.seq, 10))
	h := w.Header()
	h.Set("ETag", etag)
	h.Set(api.HeaderSeq, strconv.FormatUint(g.seq, 10))
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	img := image.NewRGBA(image.Rect(0, 0, g.info.Display.Width/10, g.info.Display.Height/10))
	img.Set(0, 0, color.White)
	var buf bytes.Buffer
	_ = png.Encode(&buf, img)
	h.Set("Content-Type", "image/png")
	h.Set(api.HeaderWidth, strconv.Itoa(g.info.Display.Width))
	h.Set(api.HeaderHeight, strconv.Itoa(g.info.Display.Height))
	h.Set(api.HeaderScale, "1")
	_, _ = w.Write(buf.Bytes())
}

func (s *Server) getClipboard(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(r.PathValue("d"))
	if problem != nil {
		refuse(w, problem)
		return
	}
	w.Header().Set("Content-Type", r.URL.Query().Get("type"))
	_, _ = w.Write(g.clipboard[r.URL.Query().Get("type")])
}

func setClipboard(g *guest, r *http.Request) (reply, *api.Error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return reply{}, api.Errorf(api.CodeInvalid, "body: %v", err)
	}
	g.clipboard[r.Header.Get("Content-Type")] = data
	return reply{status: http.StatusNoContent}, nil
}

func changeWindow(g *guest, r *http.Request) (reply, *api.Error) {
	op, problem := read[api.WindowOp](r)
	if problem != nil {
		return reply{}, problem
	}
	i := slices.IndexFunc(g.windows, func(w api.Window) bool { return strconv.FormatUint(w.ID, 10) == r.PathValue("w") })
	if i < 0 {
		return reply{}, api.Errorf(api.CodeNotFound, "no window %s", r.PathValue("w"))
	}
	switch op.Op {
	case "close":
		g.windows = slices.Delete(g.windows, i, i+1)
	case "move":
		g.windows[i].X, g.windows[i].Y = op.X, op.Y
	}
	return reply{status: http.StatusNoContent}, nil
}

// tcp is a guest on whose port 7 an echo service listens, and nothing else.
func (s *Server) tcp(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("port") != "7" {
		refuse(w, api.Errorf(api.CodeRefused, "port %s of the guest answers no", r.PathValue("port")))
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{api.SubprotocolTCP}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if conn.WriteMessage(kind, data) != nil {
			return
		}
	}
}
