package billing

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Limits of a decimal that is read: digits before and after the point.
const (
	maxWhole    = 15
	maxFraction = 12
)

// Decimals is how many digits of a cost are told.
const Decimals = 6

// Amount is an exact number: money, or a price. No operation rounds; only Text
// does. The zero value is 0. Amounts may be copied.
type Amount struct{ rat *big.Rat } // never changed once it is here

func (a Amount) value() *big.Rat {
	if a.rat == nil {
		return new(big.Rat)
	}
	return a.rat
}

// ParseAmount reads a decimal as people write prices: digits, a point, digits;
// nothing else, no sign, no exponent.
func ParseAmount(s string) (Amount, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > maxWhole || len(fraction) > maxFraction || (point && fraction == "") || !digits(whole+fraction) {
		return Amount{}, fmt.Errorf("%w amount %q: want a decimal such as 0.05, of at most %d digits before and %d after the point",
			ErrInvalid, s, maxWhole, maxFraction)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return Amount{}, fmt.Errorf("%w amount %q", ErrInvalid, s)
	}
	return Amount{r}, nil
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}

// Add answers a + b.
func (a Amount) Add(b Amount) Amount { return Amount{new(big.Rat).Add(a.value(), b.value())} }

// Times answers a × n / per, for per > 0.
func (a Amount) Times(n, per int64) Amount {
	return Amount{new(big.Rat).Mul(a.value(), big.NewRat(n, per))}
}

// Ratio is n / per, for per > 0.
func Ratio(n, per int64) Amount { return Amount{big.NewRat(n, per)} }

// Cmp is negative when a < b, positive when a > b.
func (a Amount) Cmp(b Amount) int { return a.value().Cmp(b.value()) }

// Text writes the amount with that many digits after the point; halves are
// rounded away from zero.
func (a Amount) Text(decimals int) string { return a.value().FloatString(decimals) }

func (a Amount) String() string { return a.Text(Decimals) }

// MarshalJSON writes a string of Decimals digits: a JSON number would become a
// float at the reader's.
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Amount) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read amount: %w", err)
	}
	v, err := ParseAmount(s)
	if err == nil {
		*a = v
	}
	return err
}
