// Package vault keeps runtime checkpoints where other hosts find them: exported
// snapshots, cut into parts, in a blob store that encrypts. A checkpoint is there
// when its manifest is, and a reference holds the manifest's hash, so that nothing
// is read that was not written for it.
package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/parcel"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Where things lie in the store. Nothing lies under an id without its mark: that
// is written before anything else, and removed after everything else.
const (
	markPrefix     = "runtime/begun/"     // + session/generation-id
	partPrefix     = "runtime/parts/"     // + id/number
	manifestPrefix = "runtime/manifests/" // + id
)

// maxManifest is in bytes.
const maxManifest = 16 << 20

// Vault is a store of runtime checkpoints. Safe for concurrent use, also of several
// hosts.
type Vault struct {
	// Objects encrypts what it is given. Required.
	Objects workspace.Objects
	// Key is the secret for names of sessions. Required.
	Key []byte
	// Now is the clock that ages are told by. Nil: time.Now.
	Now func() time.Time

	partSize int // of tests
}

// Entry says whose checkpoint something is.
type Entry struct {
	Scope      session.Scope `json:"scope"`
	Generation int64         `json:"generation"`
	// ID is nobody else's: lower-case letters and digits.
	ID string `json:"id"`
}

// Ref names a checkpoint, in a publication.
type Ref struct {
	ID string
	// Sum is the hash of its manifest, hex SHA-256; empty: it is not in the store,
	// but on the host alone that has made it.
	Sum string
}

// Portable says whether it is in the store.
func (r Ref) Portable() bool { return r.Sum != "" }

// String is ID or ID/SUM.
func (r Ref) String() string {
	if r.Portable() {
		return r.ID + "/" + r.Sum
	}
	return r.ID
}

// ParseRef reads what String wrote.
func ParseRef(text string) Ref {
	id, sum, _ := strings.Cut(text, "/")
	return Ref{ID: id, Sum: sum}
}

var (
	idRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]{1,64}$`) })
	sumRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
)

// manifest says what a checkpoint is made of.
type manifest struct {
	Version int           `json:"version"`
	Entry   Entry         `json:"entry"`
	Parts   []parcel.Part `json:"parts"`
}

const version = 1

// sessionName is how a session is called in the store: without the key nobody can
// tell which one that is.
func (v *Vault) sessionName(s session.Scope) string {
	h := hmac.New(sha256.New, v.Key)
	h.Write([]byte("runtime checkpoints of " + s.Key()))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (v *Vault) markKey(e Entry) string {
	return markPrefix + v.sessionName(e.Scope) + "/" + strconv.FormatInt(e.Generation, 10) + "-" + e.ID
}

func manifestKey(id string) string { return manifestPrefix + id }

func partsOf(id string) string { return partPrefix + id + "/" }

// store is where the parts are.
func (v *Vault) store() parcel.Store { return parcel.Store{Objects: v.Objects, Size: v.partSize} }

// entry reads a mark.
func (v *Vault) entry(ctx context.Context, key string) (Entry, error) {
	var e Entry
	b, err := v.store().Get(ctx, key, maxManifest)
	if err == nil {
		if jerr := json.Unmarshal(b, &e); jerr != nil || v.markKey(e) != key {
			err = parcel.Damaged(key, "it is not what was written")
		}
	}
	return e, err
}
