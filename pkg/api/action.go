package api

// Action is one step of an input batch. Kind says which members count.
//
// A point is in pixels of the screen, or, when the batch names image_width, in
// pixels of an image that was asked for with max_width (and of its region).
type Action struct {
	Kind   string   `json:"kind" enum:"move,down,up,click,drag,scroll,key,hold,text,wait,release" doc:"What to do"`
	X      *int     `json:"x,omitempty"`
	Y      *int     `json:"y,omitempty"`
	Button string   `json:"button,omitempty" enum:"left,middle,right,back,forward" doc:"Default left"`
	Count  int      `json:"count,omitempty" minimum:"0" maximum:"10" doc:"Clicks; default 1"`
	Mods   []string `json:"mods,omitempty" doc:"Keys held meanwhile"`
	Path   [][2]int `json:"path,omitempty" doc:"Points of a drag"`
	DX     int      `json:"dx,omitempty" doc:"Wheel steps, right positive"`
	DY     int      `json:"dy,omitempty" doc:"Wheel steps, down positive"`
	Keys   string   `json:"keys,omitempty" doc:"A chord such as ctrl+shift+t"`
	Repeat int      `json:"repeat,omitempty" minimum:"0" maximum:"1000" doc:"Presses of a key; default 1"`
	Text   string   `json:"text,omitempty" maxLength:"1048576"`
	// PerSecond is the rate of text in characters, or of a held key in repeats.
	PerSecond  int    `json:"per_second,omitempty" minimum:"0" maximum:"1000"`
	DurationMS int    `json:"duration_ms,omitempty" minimum:"0" maximum:"600000" doc:"Of a drag, a hold, or a wait at most"`
	For        string `json:"for,omitempty" enum:"time,change,still,notblank" doc:"What a wait waits for; default time"`
}

// InputBatch is a list of actions, done in order up to the first failure.
type InputBatch struct {
	Actions    []Action `json:"actions" minItems:"1" maxItems:"1000"`
	ImageWidth int      `json:"image_width,omitempty" minimum:"0" doc:"Width of the image that points refer to; 0: the screen itself"`
	Region     *Region  `json:"region,omitempty" doc:"The image was a crop of this region"`
	Holder     string   `json:"holder,omitempty" doc:"Who sends; default: the token"`
	Epoch      uint64   `json:"epoch,omitempty" doc:"Of the control lease; 0: the present one"`
	Screenshot bool     `json:"screenshot,omitempty" doc:"Answer with a picture taken after the last action"`
}

// Region is a part of the screen.
type Region struct {
	X      int `json:"x" minimum:"0"`
	Y      int `json:"y" minimum:"0"`
	Width  int `json:"width" minimum:"1"`
	Height int `json:"height" minimum:"1"`
}

// Effects of an action.
const (
	EffectConfirmed  = "confirmed"  // read back: pointer, text or pixels
	EffectUnverified = "unverified" // sent, and nothing said no
)

// ActionResult says what became of one action.
type ActionResult struct {
	Kind   string `json:"kind"`
	Effect string `json:"effect" enum:"confirmed,unverified"`
	How    string `json:"how,omitempty" doc:"How it was done, and what proved it or did not, in words"`
	TookMS int64  `json:"took_ms"`
}

// InputReply answers a batch. When Error is set, it is the fault of action
// number len(Results), and later ones were not tried.
type InputReply struct {
	Results    []ActionResult `json:"results"`
	Error      *Error         `json:"error,omitempty"`
	Width      int            `json:"width" doc:"Of the screen"`
	Height     int            `json:"height" doc:"Of the screen"`
	Seq        uint64         `json:"seq" doc:"Of the frame after the batch"`
	Screenshot *Picture       `json:"screenshot,omitempty"`
}

// Picture is an image inside JSON.
type Picture struct {
	MIME   string  `json:"mime"`
	Data   []byte  `json:"data"`
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Scale  float64 `json:"scale" doc:"Pixels of the image for one of the screen"`
	Seq    uint64  `json:"seq"`
}

// WaitReply answers a wait.
type WaitReply struct {
	Seq    uint64 `json:"seq"`
	WaitMS int64  `json:"wait_ms"`
}

// ScreenshotHeaders are the response headers of GET …/screenshot, beside ETag.
const (
	HeaderWidth  = "Deskfork-Width"  // of the image, pixels
	HeaderHeight = "Deskfork-Height" // of the image, pixels
	HeaderScale  = "Deskfork-Scale"  // pixels of the image for one of the screen
	HeaderSeq    = "Deskfork-Seq"    // of the frame
)
