package guest

import "time"

// Operations of the desktop, served by the helper. In both wires, to the helper
// and to the host, pixels and clipboard contents travel as bytes beside the
// JSON, never inside it.
const (
	OpReady          = "desktop.ready"           // nil → Screen
	OpScreenshot     = "desktop.screenshot"      // ScreenshotParams → Screenshot + bytes
	OpScreen         = "desktop.screen"          // nil → Screen
	OpSetScreen      = "desktop.set_screen"      // Screen (Width, Height) → Screen as it became
	OpSetKeyboard    = "desktop.set_keyboard"    // Keyboard → nil
	OpPointer        = "desktop.pointer"         // nil → Point
	OpInput          = "desktop.input"           // InputBatch → InputResult
	OpClipboardGet   = "desktop.clipboard_get"   // ClipboardParams → Clipboard (Data empty) + bytes
	OpClipboardSet   = "desktop.clipboard_set"   // Clipboard (Data empty) + bytes → nil
	OpClipboardTypes = "desktop.clipboard_types" // nil → ClipboardTargets
	OpWindows        = "desktop.windows"         // nil → WindowList
	OpWindow         = "desktop.window"          // WindowOp → WindowDone
	OpLaunch         = "desktop.launch"          // Launch → Launched
	OpPark           = "desktop.park"            // Park → Parked
	OpBrowsing       = "desktop.browsing"        // nil → nil; stream: one Browsing a line, the present one first
)

// Screenshot formats.
const (
	FormatPNG  = "png"
	FormatRGBA = "rgba" // 4 bytes a pixel, rows from the top, no padding
)

// ScreenshotParams asks for a picture of the whole screen.
type ScreenshotParams struct {
	Format string `json:"format,omitempty"` // default: FormatPNG
	Cursor bool   `json:"cursor,omitempty"` // draw the pointer into it
}

// Screenshot describes the bytes of a screenshot.
type Screenshot struct {
	Format string `json:"format"`
	Width  int    `json:"width"`  // pixels
	Height int    `json:"height"` // pixels
	Data   []byte `json:"-"`
}

// Keyboard is an XKB layout, e.g. {de, nodeadkeys}.
type Keyboard struct {
	Layout  string `json:"layout"`
	Variant string `json:"variant,omitempty"`
}

// InputBatch is a list of events, played in order; the first that cannot be
// played ends it. Keys and buttons that it pressed are then released.
type InputBatch struct {
	Events []InputEvent `json:"events"`
}

// InputResult says how far a batch went and where the pointer ended.
type InputResult struct {
	Done    int   `json:"done"` // events played
	Pointer Point `json:"pointer"`
	// Effects holds one entry for each event played.
	Effects []InputEffect `json:"effects,omitempty"`
}

// ClipboardParams asks for one target of the clipboard.
type ClipboardParams struct {
	Type string `json:"type"`
}

// ClipboardTargets lists the types that the clipboard's owner offers.
type ClipboardTargets struct {
	Types []string `json:"types"`
}

// WindowList holds top-level windows, bottom of the stack first.
type WindowList struct {
	Windows []Window `json:"windows"`
}

// Launched is the answer to a Launch.
type Launched struct {
	PID int `json:"pid"`
}

// Park starts a program and, when it has drawn its first window and is at rest,
// takes that window off the screen. It comes back, at once, when the program is
// started again. A machine is parked before it is sealed.
type Park struct {
	Argv  []string `json:"argv"`
	Class string   `json:"class"` // of the window
	// Quiet is for how long the program must be at rest. Default 3 s.
	Quiet time.Duration `json:"quiet_ns,omitempty"`
}

// Parked is the window that is parked.
type Parked struct {
	PID    int    `json:"pid"`
	Window uint64 `json:"window"`
	Frozen bool   `json:"frozen,omitempty"` // its processes stand still until it is shown
}

// Browsing says whether a browser has a page open: a window that the window
// manager knows, minimized or not. One that is parked has none.
type Browsing struct {
	Open bool `json:"open"`
}
