package image

import (
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	digestPrefix = "sha256:"
	digestHexLen = 64
	shortHexLen  = 12

	// DefaultTag is meant when a reference names no tag.
	DefaultTag = "latest"

	maxNameLen = 63
)

// Digest names an image, or the content of a file: "sha256:" and 64 lower-case hex digits.
type Digest string

// ParseDigest checks s and returns it as a Digest. Its error wraps ErrBadReference.
func ParseDigest(s string) (Digest, error) {
	h, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(h) != digestHexLen || !isHex(h) {
		return "", fmt.Errorf("parse digest %.80q: want sha256: and 64 hex digits: %w", s, ErrBadReference)
	}
	return Digest(s), nil
}

// digestOf makes a Digest from a SHA-256 sum.
func digestOf(sum []byte) Digest { return Digest(digestPrefix + hex.EncodeToString(sum)) }

// Hex is the digest without its algorithm: the name of the image's directory.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

// Short is the first 12 hex digits, for people; [ParseReference] takes it back.
func (d Digest) Short() string {
	h := d.Hex()
	return h[:min(len(h), shortHexLen)]
}

// Reference is what people call an image by: a name with a tag, or a digest, or the
// beginning of one. Exactly one of Name and Digest is set.
type Reference struct {
	Name   string // [a-z0-9] with . _ - between, at most 63 characters
	Tag    string // like Name, capitals allowed; DefaultTag when none was given
	Digest string // 12 to 64 hex digits, without the algorithm
}

// ParseReference parses "name", "name:tag", "sha256:<hex>" and bare hex of 12 to 64 digits.
// A name that reads as such hex is taken for a digest. Its error wraps ErrBadReference.
func ParseReference(s string) (Reference, error) {
	if h, ok := strings.CutPrefix(s, digestPrefix); ok {
		if len(h) < shortHexLen || len(h) > digestHexLen || !isHex(h) {
			return Reference{}, badReference(s, "a digest has 12 to 64 hex digits")
		}
		return Reference{Digest: h}, nil
	}
	if len(s) >= shortHexLen && len(s) <= digestHexLen && isHex(s) {
		return Reference{Digest: s}, nil
	}
	name, tag, tagged := strings.Cut(s, ":")
	if !tagged {
		tag = DefaultTag
	}
	if err := CheckName(name); err != nil {
		return Reference{}, badReference(s, "a name has lower-case letters, digits and . _ - inside")
	}
	if !validName(tag, true) {
		return Reference{}, badReference(s, "a tag has letters, digits and . _ - inside")
	}
	return Reference{Name: name, Tag: tag}, nil
}

// String is the reference in the form that ParseReference takes.
func (r Reference) String() string {
	if r.Digest != "" {
		return digestPrefix + r.Digest
	}
	return r.Name + ":" + r.Tag
}

// CheckName reports whether s can name an image: what reads as a digest cannot. Its error
// wraps ErrBadReference.
func CheckName(s string) error {
	if !validName(s, false) || s+":" == digestPrefix || len(s) >= shortHexLen && isHex(s) {
		return fmt.Errorf("check name %.80q: %w", s, ErrBadReference)
	}
	return nil
}

func badReference(s, why string) error {
	return fmt.Errorf("parse image reference %.80q: %s: %w", s, why, ErrBadReference)
}

// validName reports whether s is letters and digits with single . _ - between them.
func validName(s string, capitals bool) bool {
	if s == "" || len(s) > maxNameLen {
		return false
	}
	separator := true // a separator may not come now
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', capitals && 'A' <= c && c <= 'Z':
			separator = false
		case c == '.', c == '_', c == '-':
			if separator {
				return false
			}
			separator = true
		default:
			return false
		}
	}
	return !separator
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
