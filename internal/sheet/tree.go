package sheet

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"

	scale "golang.org/x/image/draw"
	"golang.org/x/image/font/inconsolata"
)

// Node is one of a tree, in the order of its lines: a parent comes before its
// children.
type Node struct {
	Picture // PNG nil: a box

	Depth int // 0: a root
}

// Pixels, of a node's line.
const (
	thumbWidth, thumbHeight = 256, 160
	lineHeight              = thumbHeight + gap
	indent                  = 96
	leastWords, mostWords   = 560, 1280 // beside the picture
)

// Tree writes a PNG of a tree: a line for each node, its picture below and to
// the right of its parent's.
func Tree(w io.Writer, nodes []Node) error {
	if len(nodes) == 0 {
		return errors.New("a tree needs a node")
	}
	deepest, wide := 0, 0
	for i, n := range nodes {
		if n.Depth < 0 || n.Depth > 0 && (i == 0 || n.Depth > nodes[i-1].Depth+1) {
			return fmt.Errorf("node %q stands %d deep, below nobody", n.Title, n.Depth)
		}
		deepest = max(deepest, n.Depth)
		wide = max(wide, n.Depth*indent+n.words())
	}
	paper := image.NewRGBA(image.Rect(0, 0, 3*gap+thumbWidth+wide, gap+len(nodes)*lineHeight))
	draw.Draw(paper, paper.Bounds(), image.White, image.Point{}, draw.Src)
	last := make([]int, deepest+1) // where the line to the children of each depth begins
	for i, n := range nodes {
		at := image.Pt(gap+n.Depth*indent, gap+i*lineHeight)
		if n.Depth > 0 {
			join(paper, n.Depth, last[n.Depth-1], at)
		}
		last[n.Depth] = at.Y + thumbHeight
		if err := n.draw(paper, at); err != nil {
			return err
		}
	}
	if err := png.Encode(w, paper); err != nil {
		return fmt.Errorf("write the tree: %w", err)
	}
	return nil
}

// words is how wide the words beside the picture are.
func (n Node) words() int {
	title, note := long(inconsolata.Bold8x16, titleSize, n.Title), long(inconsolata.Regular8x16, noteSize, n.Note)
	return min(max(title, note, leastWords), mostWords)
}

func (n Node) draw(paper draw.Image, at image.Point) error {
	place := image.Rectangle{Min: at, Max: at.Add(image.Pt(thumbWidth, thumbHeight))}
	if n.PNG == nil {
		draw.Draw(paper, place, image.NewUniform(color.Gray{Y: 0xe4}), image.Point{}, draw.Src)
	} else {
		img, err := png.Decode(bytes.NewReader(n.PNG))
		if err != nil {
			return fmt.Errorf("read the picture of %q: %w", n.Title, err)
		}
		scale.CatmullRom.Scale(paper, fit(at, place.Size(), img.Bounds()), img, img.Bounds(), scale.Src, nil)
	}
	beside := image.Pt(place.Max.X+gap, at.Y+thumbHeight/2-titleSize)
	write(paper, inconsolata.Bold8x16, beside, titleSize, n.words(), n.Title)
	write(paper, inconsolata.Regular8x16, beside.Add(image.Pt(0, titleSize+4)), noteSize, n.words(), n.Note)
	return nil
}

// join draws the line from a parent, whose picture ends at a height, down and to
// the left edge of a child's.
func join(paper draw.Image, depth, from int, to image.Point) {
	const thick = 3
	x, y := gap+(depth-1)*indent+indent/2, to.Y+thumbHeight/2
	ink := image.NewUniform(color.Gray{Y: 0x80})
	draw.Draw(paper, image.Rect(x, from, x+thick, y+thick), ink, image.Point{}, draw.Src)
	draw.Draw(paper, image.Rect(x, y, to.X, y+thick), ink, image.Point{}, draw.Src)
}
