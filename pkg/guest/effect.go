package guest

// Effect says whether an action is known to have worked.
type Effect string

// Effects.
const (
	EffectConfirmed  Effect = "confirmed"  // read back: pointer, key state, selection fetched, window property
	EffectUnverified Effect = "unverified" // accepted by the display server, the outcome was not seen
)

// Ways in which text reached its window.
const (
	TextByKeys  = "keys"  // keys of the current layout
	TextByRemap = "remap" // some characters through spare keys mapped for them
	TextByPaste = "paste" // through the clipboard, whose contents were put back
)

// InputEffect is the outcome of one event of a batch.
type InputEffect struct {
	Effect Effect `json:"effect"`
	How    string `json:"how,omitempty"` // of text and paste: TextByKeys, TextByRemap or TextByPaste
}

// WindowDone answers OpWindow.
type WindowDone struct {
	Effect Effect `json:"effect"`
	// Window is the window afterwards; nil when it is gone.
	Window *Window `json:"window,omitempty"`
}
