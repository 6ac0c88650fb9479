//go:build integration

package page_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	_ "image/png"
	"os"
	"sync"
	"testing"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/internal/server/servertest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// picture is a still screen that shows a real desktop's, with a stripe below.
type picture struct {
	mu   sync.Mutex
	seq  uint64 // guarded by mu
	data []byte // guarded by mu
	base *image.RGBA
}

var _ live.Screen = (*picture)(nil)

// paint changes the stripe.
func (p *picture) paint(c color.Color) error {
	img := image.NewRGBA(p.base.Rect)
	copy(img.Pix, p.base.Pix)
	draw.Draw(img, image.Rect(0, img.Rect.Max.Y-2, img.Rect.Max.X, img.Rect.Max.Y), image.NewUniform(c), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 80}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	p.data = b.Bytes()
	return nil
}

// Shot implements live.Screen, in the size that the dashboard asks for.
func (p *picture) Shot(_ context.Context, shot live.Shot) (live.Picture, error) {
	if !shot.JPEG || !shot.Peek || shot.MaxWidth != p.base.Rect.Dx() {
		return live.Picture{}, fmt.Errorf("the dashboard asks for %+v", shot)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pic := live.Picture{
		Picture: api.Picture{MIME: "image/jpeg", Data: p.data, Width: p.base.Rect.Dx(), Height: p.base.Rect.Dy(), Scale: 1, Seq: p.seq},
		ETag:    fmt.Sprintf("%q", fmt.Sprint(p.seq)),
	}
	if shot.Unless == pic.ETag {
		pic.Unchanged, pic.Data = true, nil
	}
	return pic, nil
}

// Wait implements live.Screen.
func (p *picture) Wait(context.Context, live.Waiting) (uint64, error) { return 1, nil }

// screens are pictures that were taken on real guests, as wide as the dashboard asks
// for them.
func screens(t *testing.T) []*image.RGBA {
	t.Helper()
	sheet := decoded(t, "../../../docs/forks.png")
	list := []*image.RGBA{scaled(decoded(t, "../../../docs/desktop.png"), image.Rect(0, 0, 1280, 800))}
	for _, at := range []image.Point{{688, 24}, {1352, 24}, {688, 520}, {1352, 520}, {24, 520}} {
		list = append(list, scaled(sheet, image.Rect(0, 0, 640, 400).Add(at)))
	}
	return list
}

func decoded(t *testing.T, name string) image.Image {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// scaled is a part of a picture at 480 by 300 pixels, each the mean of what it covers.
func scaled(src image.Image, part image.Rectangle) *image.RGBA {
	const fine = 4 // samples a pixel and axis
	out := image.NewRGBA(image.Rect(0, 0, 480, 300))
	for y := range out.Rect.Max.Y {
		for x := range out.Rect.Max.X {
			var sum [3]uint32
			for i := range fine * fine {
				fx, fy := x*fine+i%fine, y*fine+i/fine
				r, g, b, _ := src.At(part.Min.X+fx*part.Dx()/(480*fine), part.Min.Y+fy*part.Dy()/(300*fine)).RGBA()
				sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+b>>8
			}
			out.SetRGBA(x, y, color.RGBA{byte(sum[0] / 16), byte(sum[1] / 16), byte(sum[2] / 16), 255})
		}
	}
	return out
}

// door is a server over a host whose machines show pictures of real desktops.
type door struct {
	*hosttest.Fixture

	t      *testing.T
	url    string
	client *client.Client

	mu      sync.Mutex
	screens []*picture // guarded by mu; in the order in which they came
}

func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{t: t}
	all := screens(t)
	d.Fixture = hosttest.New(t, func(c *host.Config) {
		open := c.Open
		c.Open = func(cfg reach.Config) (*live.Desktop, error) {
			l, err := open(cfg)
			if err != nil {
				return nil, err
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			p := &picture{base: all[len(d.screens)%len(all)]}
			d.screens = append(d.screens, p)
			l.Screen = p
			return l, p.paint(color.RGBA{35, 35, 35, 255})
		}
	})
	url, token := servertest.Serve(t, server.Config{Host: d.Host}, nil)
	d.url = url
	var err error
	if d.client, err = client.New(d.url, client.WithToken(token)); err != nil {
		t.Fatal(err)
	}
	return d
}

// link makes a link to the dashboard.
func (d *door) link(role string) api.Ticket {
	d.t.Helper()
	got, err := d.client.ProjectTickets().Create(d.t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role})
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// names lists the desktops' names, newest first.
func (d *door) names() []string {
	d.t.Helper()
	list, err := d.Host.Desktops(d.t.Context(), hosttest.Project, host.ListFilter{})
	if err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, v := range list {
		names = append(names, fmt.Sprintf("%s %s", v.Name, v.State))
	}
	return names
}

// repaint changes what every desktop shows.
func (d *door) repaint() {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.screens {
		if err := p.paint(color.RGBA{60, 60, 60, 255}); err != nil {
			d.t.Error(err)
		}
	}
}
