// Package token makes and checks bearer tokens. A secret is shown once; what is
// kept of it is a hash.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

// Scopes.
const (
	ScopeRead  = "read"  // look: list, screenshots, files, events
	ScopeWrite = "write" // change: create, delete, exec, input; includes read
	ScopeAdmin = "admin" // everything, tokens included
	// ScopeBilling pulls and acks the use of all projects, sees what it costs, and
	// nothing else.
	ScopeBilling = "billing"
	// ScopeCost is no scope of a token: whoever has any of them may see what use
	// costs, ScopeBilling that of everybody, others that of their project.
	ScopeCost = "cost"
)

// secretBytes is the entropy of a token: 160 bits.
const secretBytes = 20

// Prefix begins every token; it lets scanners for leaked secrets recognise one.
const Prefix = "dfk_"

// New makes a token.
func New() string { return Prefix + Secret() }

// Secret makes 160 random bits as lower-case letters and digits.
func Secret() string { return text(secretBytes) }

// NewID makes an id of 12 characters: a letter, then lower-case letters and
// digits. It never says more than 55 bits of randomness.
func NewID(letter byte) string { return string(letter) + text(7)[:11] }

// text is n random bytes in lower-case base 32.
func text(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program first
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// Hash is what is stored of a secret. A secret is 160 random bits, so a plain
// digest is as good as a slow one.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Principal is who makes a call.
type Principal struct {
	TokenID string
	Project string
	Scopes  []string
}

// Can says whether the principal has a scope: admin has all, write has read.
func (p Principal) Can(scope string) bool {
	if slices.Contains(p.Scopes, ScopeAdmin) || slices.Contains(p.Scopes, scope) {
		return true
	}
	if scope == ScopeCost {
		return p.Can(ScopeRead) || p.Can(ScopeBilling)
	}
	return scope == ScopeRead && slices.Contains(p.Scopes, ScopeWrite)
}

// Valid says whether a scope exists.
func Valid(scope string) bool {
	return scope == ScopeRead || scope == ScopeWrite || scope == ScopeAdmin || scope == ScopeBilling
}
