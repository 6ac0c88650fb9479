package api

// Window is one top-level window. Coordinates are pixels of the screen.
type Window struct {
	ID        uint64 `json:"id"`
	Title     string `json:"title"`
	Class     string `json:"class"`
	PID       int    `json:"pid"`
	X         int    `json:"x"`
	Y         int    `json:"y"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Active    bool   `json:"active"`
	Minimized bool   `json:"minimized"`
	Maximized bool   `json:"maximized"`
	Type      string `json:"type" doc:"normal, dialog, desktop, dock, other"`
}

// WindowList holds top-level windows, bottom of the stack first.
type WindowList struct {
	Windows []Window `json:"windows"`
}

// WindowOp is a change of one window.
type WindowOp struct {
	Op     string `json:"op" enum:"focus,move,resize,close,maximize,minimize,restore"`
	X      int    `json:"x,omitempty"`
	Y      int    `json:"y,omitempty"`
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`
}

// Launch starts a program in the desktop session, detached. Either Argv or URL
// is set.
type Launch struct {
	Argv []string          `json:"argv,omitempty"`
	URL  string            `json:"url,omitempty" doc:"Opened in the default browser"`
	Dir  string            `json:"dir,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

// Launched answers a Launch.
type Launched struct {
	PID int `json:"pid"`
}

// Point is a position on the screen, pixels.
type Point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Keyboard sets the layout.
type Keyboard struct {
	Layout string `json:"layout" pattern:"^[a-z]{2,10}(:[a-z0-9_-]{1,32})?$" doc:"XKB layout, or layout:variant"`
}
