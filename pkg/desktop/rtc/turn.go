package rtc

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"time"
)

// TURN is a group of TURN servers that share a secret with us, as coturn's
// use-auth-secret has it.
type TURN struct {
	URLs   []string // such as turn:turn.example:3478?transport=udp
	Secret string
	// TTL is how long credentials are valid. Default 1 h.
	TTL time.Duration
}

// Server is a STUN or TURN server for a viewer.
type Server struct {
	URL        string
	Username   string // empty: none is needed
	Credential string
}

// servers makes credentials for a viewer: the end of their validity and who they
// are for, signed with the secret.
func (t TURN) servers(viewer string, now time.Time) []Server {
	user := fmt.Sprintf("%d:%s", now.Add(cmp.Or(t.TTL, time.Hour)).Unix(), viewer)
	mac := hmac.New(sha1.New, []byte(t.Secret))
	mac.Write([]byte(user))
	password := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	var list []Server
	for _, u := range t.URLs {
		list = append(list, Server{URL: u, Username: user, Credential: password})
	}
	return list
}
