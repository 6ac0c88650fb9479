// Package rate reads rate cards: data files that say what use costs from which
// day on. No price is built in; what a card does not name has no price, which is
// not the same as a price of 0.
//
// A file is lines of words. "#" begins a comment.
//
//	deskfork-rates 1
//	card 2026-11 from 2026-11-01
//	sandbox_active_seconds  0.05     USD per Hour
//	egress_bytes            0.02     USD per GiB
//	card 2027-01 from 2027-01-01
//	sandbox_active_seconds  0.045    USD per Hour
//
// A card is in force from its day, 00:00 UTC, until the next card's. Each is whole:
// it takes nothing over from the one before.
package rate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// Limits of a file.
const (
	maxLine  = 1000
	maxCards = 1000
)

// format is the first line of every file.
const format = "deskfork-rates 1"

// Rate is the price of one kind.
type Rate struct {
	// Price is for one Unit of the kind.
	Price    billing.Amount
	Currency string
}

// Card is the prices from a day on.
type Card struct {
	Version string
	From    time.Time // 00:00 UTC
	Rates   map[billing.Kind]Rate
}

// Book is all cards of a file, oldest first. It is not changed once it is read.
type Book struct{ Cards []Card }

var _ billing.Pricer = (*Book)(nil)

// LineError says what is wrong with which line.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("rate card, line %d: %s", e.Line, e.Err) }

// Unwrap gives the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Parse reads a file. It joins a *LineError for each line that is wrong; a file
// with one is not used at all.
func Parse(r io.Reader) (*Book, error) {
	var (
		b    Book
		errs []error
		n    int
		seen bool // the format's line
	)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxLine+1), maxLine+1)
	for lines.Scan() {
		n++
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		var err error
		switch {
		case len(words) == 0:
			continue
		case !seen:
			seen = true
			if strings.Join(words, " ") != format {
				return nil, &LineError{n, fmt.Errorf("want %q: this is no rate card, or one of a later format", format)}
			}
		case words[0] == "card":
			err = b.card(words)
		default:
			err = b.rate(words)
		}
		if err != nil {
			errs = append(errs, &LineError{n, err})
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxLine)
		}
		return nil, errors.Join(append(errs, &LineError{n + 1, err})...)
	}
	if !seen {
		errs = append(errs, &LineError{n + 1, fmt.Errorf("the file ends before %q", format)})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &b, nil
}

var (
	versionRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })
	currencyRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]{3}$`) })
)

// card reads: card VERSION from YYYY-MM-DD.
func (b *Book) card(words []string) error {
	if len(words) != 4 || words[2] != "from" || !versionRE().MatchString(words[1]) {
		return errors.New(`want "card VERSION from YYYY-MM-DD", the version of letters, digits, ".", "_" and "-"`)
	}
	from, err := time.Parse(time.DateOnly, words[3])
	if err != nil {
		return fmt.Errorf("day %q: want YYYY-MM-DD", words[3])
	}
	if len(b.Cards) >= maxCards {
		return fmt.Errorf("more than %d cards", maxCards)
	}
	for _, c := range b.Cards {
		if c.Version == words[1] {
			return fmt.Errorf("card %s is here twice", c.Version)
		}
	}
	// It is taken even when it is too early, so that its lines are not blamed on
	// the card before.
	last := time.Time{}
	if n := len(b.Cards); n > 0 {
		last = b.Cards[n-1].From
	}
	b.Cards = append(b.Cards, Card{Version: words[1], From: from, Rates: map[billing.Kind]Rate{}})
	if !from.After(last) {
		return fmt.Errorf("card %s begins on %s, not after the card before it", words[1], words[3])
	}
	return nil
}

// rate reads: KIND PRICE CURRENCY per UNIT.
func (b *Book) rate(words []string) error {
	kind := billing.Kind(words[0])
	if !kind.Valid() {
		return fmt.Errorf("unknown kind %q; kinds are %s", words[0], kinds())
	}
	unit := Unit(kind)
	if len(words) != 5 || words[3] != "per" || words[4] != unit {
		return fmt.Errorf(`want "%s PRICE CURRENCY per %s"`, kind, unit)
	}
	price, err := billing.ParseAmount(words[1])
	if err != nil {
		return err
	}
	if !currencyRE().MatchString(words[2]) {
		return fmt.Errorf("currency %q: want three capital letters, as USD", words[2])
	}
	if len(b.Cards) == 0 {
		return errors.New(`a price before the first "card"`)
	}
	rates := b.Cards[len(b.Cards)-1].Rates
	if _, ok := rates[kind]; ok {
		return fmt.Errorf("%s is here twice in one card", kind)
	}
	rates[kind] = Rate{Price: price, Currency: words[2]}
	return nil
}

// Unit is the word for what the price of a kind is for.
func Unit(k billing.Kind) string { return strings.TrimSuffix(k.Unit().Name, "s") }

func kinds() string {
	names := make([]string, 0, len(billing.Kinds()))
	for _, k := range billing.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Charge implements billing.Pricer: a row is priced by the card in force when its
// window starts.
func (b *Book) Charge(r billing.Row) billing.Charge {
	c := billing.Charge{Row: r}
	card := b.at(r.Start)
	if card == nil {
		return c
	}
	rate, ok := card.Rates[r.Kind]
	if !ok {
		return c
	}
	cost := rate.Price.Times(r.Value, r.Kind.Unit().Size)
	c.Cost, c.Price, c.Currency, c.Card = &cost, &rate.Price, rate.Currency, card.Version
	return c
}

// at is the card in force at an instant; nil before the first.
func (b *Book) at(t time.Time) *Card {
	for i := len(b.Cards) - 1; i >= 0; i-- {
		if !t.Before(b.Cards[i].From) {
			return &b.Cards[i]
		}
	}
	return nil
}
