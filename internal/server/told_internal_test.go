package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestTold: people are told of a batch what they can see, at the screen's own points.
func TestTold(t *testing.T) {
	n := func(i int) *int { return &i }
	screen := api.Display{Width: 1280, Height: 800}
	long := make([][2]int, 100)
	for i := range long {
		long[i] = [2]int{i, i}
	}
	for _, tc := range []struct {
		name string
		in   api.InputBatch
		want []api.Action
	}{
		{"a click, and what is nothing to see", api.InputBatch{Actions: []api.Action{
			{Kind: "move", X: n(1), Y: n(2)}, {Kind: "click", X: n(30), Y: n(40)}, {Kind: "wait", DurationMS: 3},
		}}, []api.Action{{Kind: "click", X: n(30), Y: n(40)}}},
		{"in a smaller image", api.InputBatch{ImageWidth: 640, Actions: []api.Action{{Kind: "click", X: n(30), Y: n(40)}}}, []api.Action{{Kind: "click", X: n(60), Y: n(80)}}},
		{"in a region", api.InputBatch{ImageWidth: 100, Region: &api.Region{X: 10, Y: 20, Width: 200, Height: 100}, Actions: []api.Action{
			{Kind: "drag", Path: [][2]int{{1, 1}, {50, 50}}},
		}}, []api.Action{{Kind: "drag", Path: [][2]int{{12, 22}, {110, 120}}}}},
		{"a long text", api.InputBatch{Actions: []api.Action{{Kind: "text", Text: strings.Repeat("ä", 150)}}}, []api.Action{{Kind: "text", Text: strings.Repeat("ä", 100) + "…"}}},
	} {
		got, more := told(tc.in, screen)
		if more != 0 {
			t.Errorf("%s: %d more", tc.name, more)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
	many := make([]api.Action, 30)
	for i := range many {
		many[i] = api.Action{Kind: "drag", Path: long}
	}
	got, more := told(api.InputBatch{Actions: many}, screen)
	if len(got) != toldActions || more != 10 || len(got[0].Path) > toldPoints+1 || got[0].Path[len(got[0].Path)-1] != [2]int{99, 99} {
		t.Errorf("%d actions and %d more, of %d points", len(got), more, len(got[0].Path))
	}
}
