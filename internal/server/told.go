package server

import (
	"context"
	"unicode/utf8"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/pkg/api"
)

// Bounds of what one event tells of a batch.
const (
	toldActions = 20
	toldText    = 200 // bytes
	toldPoints  = 32
)

// tell tells who watches a desktop what is about to be played on it. What cannot be
// told is no reason not to play it.
func (s *Server) tell(ctx context.Context, by InLease, b api.InputBatch) {
	d, err := s.host.Desktop(ctx, route.Project(ctx), by.Desktop)
	if err != nil {
		return
	}
	list, more := told(b, d.Display)
	if len(list) == 0 {
		return
	}
	who := view.Holder(ctx, by.Holder, api.ControlAgent)
	data := map[string]any{"holder": who.Name, "kind": string(who.Kind), "actions": list}
	if more > 0 {
		data["more"] = more
	}
	s.host.Events().Publish(d.Project, event.TypeInputBegun, d.ID, data)
}

// told is what people are told of a batch, with points of the screen itself, and how
// many actions were left out. Moves, waits and what is let go are nothing to them.
func told(b api.InputBatch, screen api.Display) (list []api.Action, more int) {
	scale := scaleOf(b, screen)
	for _, a := range b.Actions {
		switch a.Kind {
		case "move", "up", "wait", "release":
			continue
		}
		if len(list) == toldActions {
			more++
			continue
		}
		a.Text = cut(a.Text, toldText)
		if a.X != nil && a.Y != nil {
			p := scale([2]int{*a.X, *a.Y})
			a.X, a.Y = &p[0], &p[1]
		}
		path := a.Path
		a.Path = nil
		for i, p := range path {
			// Of a long one every so many, and the last.
			if every := len(path)/toldPoints + 1; i%every == 0 || i == len(path)-1 {
				a.Path = append(a.Path, scale(p))
			}
		}
		list = append(list, a)
	}
	return list, more
}

// scaleOf turns points of a batch into points of the screen.
func scaleOf(b api.InputBatch, screen api.Display) func([2]int) [2]int {
	area := api.Region{Width: screen.Width, Height: screen.Height}
	if b.Region != nil {
		area = *b.Region
	}
	return func(p [2]int) [2]int {
		if b.ImageWidth > 0 {
			p[0], p[1] = p[0]*area.Width/b.ImageWidth, p[1]*area.Width/b.ImageWidth
		}
		return [2]int{area.X + p[0], area.Y + p[1]}
	}
}

// cut shortens a text to so many bytes, and no character in two.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
