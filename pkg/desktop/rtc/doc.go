// Package rtc shows a stream to viewers over WebRTC, and takes their input.
//
// All desktops share one UDP and one TCP port. Each viewer has a way of its own:
// its bandwidth is estimated (GCC over TWCC), and one that cannot take the high
// level gets the low one; nobody waits for it.
//
// A viewer that wants more than the picture opens data channels, by these labels:
//
//	cursor  reliable; where the pointer is and how it looks, to be drawn there
//	moves   unordered, without retransmission; pointer moves
//	input   ordered and reliable; all other input, and what became of it
//
// Messages are binary, big endian; see Parse for those of viewers:
//
//	1  move     seq u32, x u16, y u16               on moves or input
//	2  buttons  seq u32, x u16, y u16, held u16      as desktop.Button
//	3  key      seq u32, keysym u32, code u32, down u8
//	4  scroll   seq u32, x u16, y u16, dx i16, dy i16  120 is a notch; right and down
//	5  text     seq u32, UTF-8
//	6  release  seq u32                              of all keys and buttons
//	7  key      seq u32                              the picture was lost; a new key, please
//	8  stay     seq u32                              who has control keeps it
//	9  clip     seq u32, UTF-8                       into the desktop's clipboard
//
// and those to them:
//
//	16 look     hot x u16, hot y u16, PNG            without a PNG it is hidden
//	17 place    x u16, y u16                         of the hot spot
//	18 refused  seq u32, code, NUL, text             input that was not played; moves are not told of
//	19 clip     UTF-8                                of the desktop's clipboard
//
// Points are pixels of the screen at its full size. Sequence numbers grow with
// every message of a viewer, whatever its channel: a move that comes after
// something newer is dropped.
package rtc
