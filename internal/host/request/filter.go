package request

import (
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

// Filter narrows a list of desktops. Zero members do not.
type Filter struct {
	Labels []string // key, or key=value
	State  api.DesktopState
	Name   string
}

// Match says whether a desktop is on the list.
func (f Filter) Match(v api.Desktop) bool {
	if (f.State != "" && f.State != v.State) || (f.Name != "" && f.Name != v.Name) {
		return false
	}
	for _, l := range f.Labels {
		key, want, exact := strings.Cut(l, "=")
		got, has := v.Labels[key]
		if !has || (exact && got != want) {
			return false
		}
	}
	return true
}
