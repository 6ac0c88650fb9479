package watch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/gate"
	server "github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// kindPicture is the first byte of a picture's message; others are rtc's.
const kindPicture = 1

// adaptGap is how often a viewer's level is thought about.
const adaptGap = 200 * time.Millisecond

// plentyKbps is the bitrate of a way that is not measured: it shows by what it
// drops whether it is too slow.
const plentyKbps = 100_000

// socket shows a desktop over a WebSocket.
func (d *desk) socket(w http.ResponseWriter, r *http.Request) error {
	codec, err := codecOf(r.URL.Query().Get("codec"))
	if err != nil {
		return err
	}
	if err := server.Wanted(r); err != nil {
		return err
	}
	visit, err := d.join(r, "websocket")
	if err != nil {
		return err
	}
	defer visit.Leave()
	ctx, lost := context.WithCancel(r.Context())
	defer lost()
	v, err := visit.Stream().Watch(ctx, stream.Want{Codec: codec, Reliable: true})
	if err != nil {
		return err
	}
	defer v.Close()
	ws, err := server.Upgrade(w, r, api.SubprotocolStream, d.Beat, lost)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	if err := show(ctx, lost, ws, visit, v); err != nil {
		gate.Note(r, fault.From(gate.Why(r.Context(), err)))
	}
	return nil
}

// codecOf is the first that this host has of a list.
func codecOf(list string) (video.Codec, error) {
	if list == "" {
		return video.Tiles, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if c := video.Codec(name); slices.Contains(video.Codecs(), c) {
			return c, nil
		}
	}
	return "", status(http.StatusNotAcceptable, api.Errorf(api.CodeUnsupported, "codec: this host sends %v", video.Codecs()))
}

// show runs a viewer until it ends or goes away, and closes its socket. It answers
// what went wrong, which the viewer has been told.
func show(ctx context.Context, end context.CancelFunc, ws *server.Socket, visit Visit, v *stream.Viewer) error {
	hand := rtc.NewHand(visit.Control(), rtc.NewID(), v.RequestKey, func(b []byte) { _ = ws.Binary(b) }) // who is gone needs no answer
	heard := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() { hand.Run(ctx) })
	all.Go(func() {
		defer end()
		heard <- hear(ctx, ws, hand)
	})
	all.Go(func() { point(ctx, ws, visit.Stream()) })
	all.Go(func() { adapt(ctx, v) })
	err := pictures(ctx, ws, v)
	end()
	select {
	case err = <-heard: // it ended the pictures
	default:
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		_ = ws.Text(api.StreamMessage{Kind: "error", Error: fault.From(err)}) // a client that is gone reads nothing
	}
	ws.Close(err)
	all.Wait()
	return err
}

// point tells the client of the pointer.
func point(ctx context.Context, ws *server.Socket, s *stream.Stream) {
	var pointers rtc.Pointers
	_ = s.Cursors(ctx, func(c desktop.Cursor) error { // it ends with the viewer
		list, err := pointers.Tell(c)
		for _, b := range list {
			err = errors.Join(err, ws.Binary(b))
		}
		return err
	})
}

// hear plays what the client sends until it closes.
func hear(ctx context.Context, ws *server.Socket, hand *rtc.Hand) error {
	for {
		m, err := ws.Next()
		if err != nil {
			return err
		}
		if m.Binary == nil {
			return server.ErrProtocol
		}
		raw, err := io.ReadAll(io.LimitReader(m.Binary, rtc.MaxMessage+1))
		if err != nil {
			return err
		}
		if err := hand.Take(ctx, raw, true); err != nil {
			return errors.Join(server.ErrProtocol, err)
		}
	}
}

// adapt chooses the level by what the client did not read in time.
func adapt(ctx context.Context, v *stream.Viewer) {
	tick := time.NewTicker(adaptGap)
	defer tick.Stop()
	for l := (stream.Ladder{}); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if v.SetLevel(ctx, l.Step(time.Now(), stream.Way{Kbps: plentyKbps, Dropped: v.Dropped()})) != nil {
			return // the stream has ended, and the viewer does
		}
	}
}

// pictures sends them, each kind announced.
func pictures(ctx context.Context, ws *server.Socket, v *stream.Viewer) error {
	var told api.StreamMessage
	var begun time.Time
	for {
		f, err := v.Next(ctx)
		if err != nil {
			return err
		}
		if begun.IsZero() {
			begun = f.At
		}
		m := api.StreamMessage{Kind: "begin", Codec: string(f.Codec), Config: configOf(f.Codec), Level: f.Level.String(), Width: f.Width, Height: f.Height}
		if m != told {
			if err := ws.Text(m); err != nil {
				return err
			}
			told = m
		}
		flags := byte(0)
		if f.Key {
			flags = 1
		}
		head := []byte{kindPicture, flags, 0, byte(f.Level)}
		head = binary.BigEndian.AppendUint32(head, uint32(f.At.Sub(begun).Microseconds()))
		head = binary.BigEndian.AppendUint32(head, uint32(f.Took.Microseconds()))
		if err := ws.Binary(append(head, f.Data...)); err != nil {
			return err
		}
	}
}

// configOf is what WebCodecs calls a codec.
func configOf(c video.Codec) string {
	switch c {
	case video.VP9:
		return "vp09.00.40.08.01.06.06.06.00" // of BT.601, as it is encoded
	case video.VP8:
		return "vp8"
	case video.Tiles:
	}
	return ""
}
