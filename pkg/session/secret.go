package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const redacted = "[redacted]"

// Secret is text that prints as [redacted] wherever it is formatted, marshalled
// or logged. The zero value is the empty secret. Compare with Equal.
type Secret struct {
	// A pointer, because fmt prints an unexported field of a foreign struct
	// without asking its methods; of a pointer it prints the address.
	text *string
}

// NewSecret draws 128 bits or more of randomness.
func NewSecret() Secret { return SecretOf(rand.Text()) }

// SecretOf wraps text that must not be shown.
func SecretOf(text string) Secret { return Secret{text: &text} }

// Reveal is the text itself; call it only where it is used.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal compares in constant time.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// Hash is the SHA-256 of the text in hex: what a database may hold of it.
func (s Secret) Hash() string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:])
}

// Redact replaces the secret wherever text holds it.
func (s Secret) Redact(text string) string {
	if s.Reveal() == "" {
		return text
	}
	return strings.ReplaceAll(text, s.Reveal(), redacted)
}

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText implements encoding.TextMarshaler, and with it JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// GobEncode implements gob.GobEncoder.
func (Secret) GobEncode() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
