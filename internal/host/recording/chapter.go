package recording

import (
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/pkg/api"
)

// mergeWithin is how long a chapter takes in what happens after it.
const mergeWithin = 2 * time.Second

// mostWords bounds the kinds of things that a chapter names.
const mostWords = 8

// chapter is one that may still grow.
type chapter struct {
	at    time.Duration
	words []string
	count map[string]int
}

func newChapter(at time.Duration) *chapter { return &chapter{at: at, count: map[string]int{}} }

func (c *chapter) add(words []string) {
	for _, w := range words {
		if c.count[w]++; c.count[w] == 1 {
			c.words = append(c.words, w)
		}
	}
}

// mark is the chapter as it is told.
func (c *chapter) mark() api.Chapter {
	var list []string
	for i, w := range c.words {
		if i == mostWords {
			list = append(list, "…")
			break
		}
		if n := c.count[w]; n > 1 {
			w = fmt.Sprintf("%s ×%d", w, n)
		}
		list = append(list, w)
	}
	return api.Chapter{AtMS: c.at.Milliseconds(), Title: strings.Join(list, ", ")}
}

// wordsOf is what an event is to a chapter: the kinds of an agent's actions, or who
// has control. Texts are left out, since a recording is kept.
func wordsOf(e api.Event) []string {
	holder, _ := e.Data["holder"].(string)
	switch e.Type {
	case event.TypeInputBegun:
		actions, _ := e.Data["actions"].([]api.Action)
		words := make([]string, 0, len(actions))
		for _, a := range actions {
			words = append(words, a.Kind)
		}
		return words
	case event.TypeControlTaken, event.TypeControlGiven:
		return []string{"control: " + holder}
	case event.TypeControlReleased, event.TypeControlLost:
		return []string{"control: nobody"}
	}
	return nil
}
