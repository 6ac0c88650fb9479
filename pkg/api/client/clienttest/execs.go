package clienttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// exec is a program of a fake guest.
type exec struct {
	mu     sync.Mutex
	status api.ExecStatus
	out    []byte
	err    []byte
	kept   int // output before this offset is no longer kept
	input  []byte
	feeder *link         // whose input counts: the newest link's
	sizes  []api.Display // of its terminal, in cells
	grown  chan struct{} // closed and made anew with every change
}

func (e *exec) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.grown)
	e.grown = make(chan struct{})
}

// run is the whole list of programs: true, false, echo, cat, numbers N, fail
// (writes to stderr and ends with 3), wait, bash and python3 (end when signalled),
// rm and uname.
func (e *exec) run(spec api.Exec, files map[string]*file) {
	argv := spec.Argv
	if spec.Shell != "" {
		argv = strings.Fields(spec.Shell)
	}
	if argv[0] == "wait" || argv[0] == "bash" || argv[0] == "python3" || (argv[0] == "cat" && len(argv) == 1 && spec.Stdin) {
		return // an attachment or a signal ends it
	}
	args, code := argv[1:], 0
	switch argv[0] {
	case "fail":
		e.err, code = []byte("fail: as asked\n"), 3
	case "cat":
		code = e.cat(spec, args, files)
	case "rm":
		for _, name := range args {
			delete(files, name)
		}
	default:
		if out, known := printed(argv[0], args); known {
			e.out = out
			break
		}
		e.err, code = []byte(argv[0]+": not found\n"), 127
	}
	if argv[0] == "false" {
		code = 1
	}
	e.end(code, "")
}

// printed is the output of programs that do nothing else.
func printed(name string, args []string) (out []byte, known bool) {
	switch name {
	case "true", "false":
	case "echo":
		out = []byte(strings.Join(args, " ") + "\n")
	case "uname":
		out = []byte("Linux\n")
	case "numbers":
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			out = fmt.Appendf(out, "%d\n", i)
		}
	default:
		return nil, false
	}
	return out, true
}

// cat prints a file, or its input.
func (e *exec) cat(spec api.Exec, names []string, files map[string]*file) int {
	if len(names) == 0 {
		e.out = spec.Input
		return 0
	}
	f := files[names[0]]
	if f == nil {
		e.err = []byte("cat: " + names[0] + ": No such file or directory\n")
		return 1
	}
	e.out = f.content
	return 0
}

func (e *exec) end(code int, signal string) {
	e.status.Running, e.status.ExitCode, e.status.Signal = false, code, signal
	e.status.Ended = epoch()
	e.status.Out, e.status.Err = int64(len(e.out)), int64(len(e.err))
}

// DropOutput makes an exec forget its output before an offset.
func (s *Server) DropOutput(ref, id string, before int) {
	if e := s.exec(ref, id); e != nil {
		e.change(func() { e.kept = before })
	}
}

// Input is what an exec has read.
func (s *Server) Input(ref, id string) string {
	e := s.exec(ref, id)
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.input)
}

// Sizes are those that the terminal of a desktop's only exec has had, in cells.
func (s *Server) Sizes(ref string) []api.Display {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(ref)
	if problem != nil {
		return nil
	}
	for _, e := range g.execs {
		e.mu.Lock()
		defer e.mu.Unlock()
		return slices.Clone(e.sizes)
	}
	return nil
}

func (s *Server) exec(ref, id string) *exec {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(ref)
	if problem != nil {
		return nil
	}
	return g.execs[id]
}

func (s *Server) start(g *guest, spec api.Exec) (*exec, *api.Error) {
	if (len(spec.Argv) == 0) == (spec.Shell == "") {
		return nil, api.Errorf(api.CodeInvalid, "one of argv and shell is wanted")
	}
	if spec.ID == "" {
		spec.ID = fmt.Sprintf("x%d", len(g.execs)+1)
	}
	if e := g.execs[spec.ID]; e != nil {
		return e, nil
	}
	e := &exec{grown: make(chan struct{}), status: api.ExecStatus{
		ID: spec.ID, PID: 1000 + len(g.execs), Argv: spec.Argv, Started: epoch(), Running: true,
	}}
	if spec.PTY {
		e.sizes = append(e.sizes, api.Display{Width: int(spec.Cols), Height: int(spec.Rows)})
	}
	if s.onExec != nil {
		s.onExec(&Guest{g}, spec)
	}
	e.run(spec, g.files)
	g.execs[spec.ID] = e
	return e, nil
}

func (s *Server) routeExecs(m *http.ServeMux) {
	const d = "/v1/desktops/{d}"
	m.HandleFunc("POST "+d+"/exec", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		spec, problem := read[api.Exec](r)
		if problem != nil {
			return reply{}, problem
		}
		e, problem := s.start(g, spec)
		if problem != nil {
			return reply{}, problem
		}
		return reply{body: api.ExecResult{ExecStatus: e.status, Stdout: e.out, Stderr: e.err}}, nil
	}))
	m.HandleFunc("POST "+d+"/execs", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		spec, problem := read[api.Exec](r)
		if problem != nil {
			return reply{}, problem
		}
		e, problem := s.start(g, spec)
		if problem != nil {
			return reply{}, problem
		}
		return reply{http.StatusCreated, e.status}, nil
	}))
	m.HandleFunc("GET "+d+"/execs", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		list := api.ExecList{Execs: []api.ExecStatus{}}
		for _, e := range g.execs {
			list.Execs = append(list.Execs, e.status)
		}
		return reply{body: list}, nil
	}))
	m.HandleFunc("GET "+d+"/execs/{e}", s.one(func(e *exec, _ *http.Request) (reply, *api.Error) {
		return reply{body: e.status}, nil
	}))
	m.HandleFunc("DELETE "+d+"/execs/{e}", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		delete(g.execs, r.PathValue("e"))
		return reply{status: http.StatusNoContent}, nil
	}))
	m.HandleFunc("POST "+d+"/execs/{e}/signal", s.one(func(e *exec, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Signal](r)
		e.change(func() { e.end(143, in.Signal) })
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("GET "+d+"/execs/{e}/attach", s.attach)
}

func (s *Server) one(f func(e *exec, r *http.Request) (reply, *api.Error)) http.HandlerFunc {
	return s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		e := g.execs[r.PathValue("e")]
		if e == nil {
			return reply{}, api.Errorf(api.CodeNotFound, "no exec %q", r.PathValue("e"))
		}
		return f(e, r)
	})
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	e := s.exec(r.PathValue("d"), r.PathValue("e"))
	if e == nil {
		refuse(w, api.Errorf(api.CodeNotFound, "no exec %q", r.PathValue("e")))
		return
	}
	e.mu.Lock()
	running := e.status.Running
	e.mu.Unlock()
	if r.URL.Query().Get("stdin") == "true" && !running {
		refuse(w, api.Errorf(api.CodePrecondition, "standard input is closed"))
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{api.SubprotocolExec}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	l := &link{e: e, conn: conn, budget: -1, input: -1}
	s.mu.Lock()
	if len(s.cut) > 0 {
		l.budget, s.cut = s.cut[0], s.cut[1:]
	}
	if len(s.cutInput) > 0 {
		l.input, s.cutInput = s.cutInput[0], s.cutInput[1:]
	}
	s.mu.Unlock()
	_, _ = fmt.Sscan(r.URL.Query().Get("out_from"), &l.out)
	_, _ = fmt.Sscan(r.URL.Query().Get("err_from"), &l.err)
	l.run()
}
