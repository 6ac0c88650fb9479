package api

// SubprotocolStream is the WebSocket subprotocol of …/stream.
//
// Server to client: a StreamMessage as text before the first picture and whenever
// what follows is of another kind; binary messages whose first byte says what they
// are: 1 a picture (flags: bit 0 is a key; 2 bytes of level; 4 bytes of time, 4 of
// what its encoding took, in microseconds; its data), 16 to 19 as on WebRTC's
// channels. Client to server: binary messages as on WebRTC's channels. docs/viewer.md
// has them all.
const SubprotocolStream = "deskfork-stream-v1"

// StreamMessage is a text message on a viewer's WebSocket.
type StreamMessage struct {
	Kind   string `json:"kind"`            // begin, or error, the last message
	Codec  string `json:"codec,omitempty"` // vp9, vp8 or tiles: JPEGs, each after x and y in 2 bytes and its length in 4
	Config string `json:"config,omitempty" doc:"What WebCodecs calls it"`
	Level  string `json:"level,omitempty"` // high or low
	Width  int    `json:"width,omitempty"` // of pictures, in pixels
	Height int    `json:"height,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// ViewerStatus is how a viewer by WebRTC is doing.
type ViewerStatus struct {
	Connected bool        `json:"connected" doc:"A way to it was found"`
	Codec     string      `json:"codec" doc:"vp9 or vp8"`
	Level     string      `json:"level" doc:"high or low"`
	Frames    uint64      `json:"frames" doc:"Pictures sent"`
	Keys      uint64      `json:"keys" doc:"Of these, such as need no other"`
	Dropped   uint64      `json:"dropped" doc:"Pictures not sent since the way was too slow"`
	Bytes     uint64      `json:"bytes" doc:"Of pictures"`
	Kbps      int         `json:"kbps" doc:"What the way carries, by estimate"`
	EncodeUS  int64       `json:"encode_us" doc:"What the last picture took to encode, in microseconds"`
	Ways      []ViewerWay `json:"ways" doc:"Pairs of addresses that were tried; the one in use first"`
}

// ViewerWay is a pair of addresses, and what came of trying it.
type ViewerWay struct {
	Protocol    string `json:"protocol" doc:"udp or tcp"`
	Host        string `json:"host" doc:"Address of the host"`
	HostKind    string `json:"host_kind" doc:"host, srflx, prflx or relay"`
	Viewer      string `json:"viewer" doc:"Address of the viewer"`
	ViewerKind  string `json:"viewer_kind"`
	State       string `json:"state" doc:"waiting, in-progress, failed or succeeded"`
	InUse       bool   `json:"in_use"`
	Asked       uint64 `json:"asked" doc:"Checks sent to the viewer"`
	Replied     uint64 `json:"replied" doc:"Of these, answered"`
	Heard       uint64 `json:"heard" doc:"Checks that came from the viewer"`
	RoundTripUS int64  `json:"round_trip_us" doc:"Of the last check, in microseconds"`
}
