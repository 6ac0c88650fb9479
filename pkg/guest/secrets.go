package guest

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/json"
	"fmt"
)

// MaxSealed bounds what Seal makes, in bytes.
const MaxSealed = 16 << 20

// Secrets are what a program is told that nothing else in the guest may keep, so that
// no snapshot of a machine in which it has ended holds them.
//
// guestd starts a process that makes a key pair, and the host encrypts for it. What
// passes through the link, the kernel's buffers and guestd's memory is that. The
// process decrypts it and becomes the program.
type Secrets struct {
	// Env goes over that of the ExecSpec.
	Env map[string]string `json:"env,omitempty"`
	// Input is the whole of standard input, where it is not nil.
	Input []byte `json:"input,omitempty"`
	// HasInput says that Input is meant, empty or not.
	HasInput bool `json:"has_input,omitempty"`
}

// SealKey is one end of a sealed start: DHKEM with X25519, HKDF-SHA256 and
// ChaCha20-Poly1305 of RFC 9180, one message.
type SealKey struct{ private hpke.PrivateKey }

const sealInfo = "deskfork exec secrets 1"

// NewSealKey draws a key.
func NewSealKey() (*SealKey, error) {
	k, err := kem().GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("draw key: %w", err)
	}
	return &SealKey{k}, nil
}

func kem() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

// Public is what ExecStatus.SealKey tells.
func (k *SealKey) Public() []byte { return k.private.PublicKey().Bytes() }

// Open decrypts what Seal made for this key.
func (k *SealKey) Open(sealed []byte) (s Secrets, err error) {
	text, err := hpke.Open(k.private, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), []byte(sealInfo), sealed)
	if err != nil {
		return s, fmt.Errorf("decrypt secrets: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("decode secrets: %w", err)
	}
	return s, nil
}

// Seal encrypts for the process that told the key.
func Seal(key []byte, s Secrets) ([]byte, error) {
	public, err := kem().NewPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the guest's key: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	sealed, err := hpke.Seal(public, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), []byte(sealInfo), text)
	if err != nil {
		return nil, fmt.Errorf("encrypt secrets: %w", err)
	}
	if len(sealed) > MaxSealed {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("environment and input take %d bytes, at most %d are taken", len(sealed), MaxSealed)}
	}
	return sealed, nil
}
