package clienttest

import (
	"net/http"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest/films"
)

// routeControl serves a control lease without its rules: whoever takes it has it,
// and it is taken from nobody.
func (s *Server) routeControl(m *http.ServeMux) {
	const d = "/v1/desktops/{d}"
	m.HandleFunc("GET "+d+"/control", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		return reply{body: g.controlFor(r.Header.Get(api.HeaderHolder))}, nil
	}))
	m.HandleFunc("POST "+d+"/control", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.ChangeControl](r)
		if problem != nil {
			return reply{}, problem
		}
		if g.control.Held && g.control.Holder != in.Holder {
			return reply{}, api.Errorf(api.CodeControlHeld, "%s %s has control", g.control.Kind, g.control.Holder)
		}
		held := in.Action == api.ControlTake || in.Action == api.ControlRequest || in.Action == api.ControlRenew
		if held != g.control.Held {
			g.control = api.Control{Held: held, Epoch: g.control.Epoch + 1}
			g.audit = append([]api.AuditEntry{{
				Seq: int64(len(g.audit) + 1), Time: epoch(), Desktop: g.info.ID, What: "control." + in.Action, Epoch: g.control.Epoch,
				Who: in.Holder, Kind: string(in.As),
			}}, g.audit...)
		}
		if held {
			g.control.Holder, g.control.Kind, g.control.Expires = in.Holder, in.As, epoch().Add(time.Duration(in.TTLS)*time.Second)
		}
		return reply{body: g.controlFor(in.Holder)}, nil
	}))
	m.HandleFunc("PUT "+d+"/control/policy", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.ControlPolicy](r)
		g.info.ControlPolicy = in
		return reply{body: g.info}, problem
	}))
	m.HandleFunc("GET "+d+"/audit", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		return reply{body: api.AuditLog{Entries: g.audit}}, nil
	}))
	m.HandleFunc("GET "+d+"/tickets", s.at(func(*guest, *http.Request) (reply, *api.Error) {
		return reply{body: api.TicketList{Tickets: []api.Ticket{{ID: "t1", Role: "view", Expires: epoch()}}}}, nil
	}))
	m.HandleFunc("DELETE "+d+"/tickets/{id}", s.at(func(_ *guest, r *http.Request) (reply, *api.Error) {
		if r.PathValue("id") != "t1" {
			return reply{}, api.Errorf(api.CodeNotFound, "no ticket %q", r.PathValue("id"))
		}
		return reply{status: http.StatusNoContent}, nil
	}))
	films.Route(m, func(call films.Call) http.HandlerFunc {
		return s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
			status, body, problem := call(&g.films, g.info, r)
			return reply{status, body}, problem
		})
	})
}

// controlFor is who has control, as somebody sees it.
func (g *guest) controlFor(holder string) api.Control {
	c := g.control
	c.Epoch++ // the first is 1
	c.Mine = c.Held && c.Holder == holder
	return c
}
