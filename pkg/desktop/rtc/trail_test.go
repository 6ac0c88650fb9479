package rtc

import (
	"testing"
	"time"
)

// TestServers: credentials as coturn checks them.
func TestServers(t *testing.T) {
	got := TURN{URLs: []string{"turn:a", "turns:b"}, Secret: "north", TTL: time.Minute}.servers("v1", time.Unix(1000, 0))
	// printf 1060:v1 | openssl dgst -sha1 -hmac north -binary | base64
	if len(got) != 2 || got[1].URL != "turns:b" || got[0].Username != "1060:v1" || got[0].Credential != "+ckezpe3vfusQrkKJCzGEt/Dao0=" {
		t.Errorf("%+v", got)
	}
}

// TestTrail: late is what was lost, or not reported for long; a key is reported
// once; numbers wrap.
func TestTrail(t *testing.T) {
	var tr trail
	now := time.Unix(1e9, 0)
	tr.sent(65530, true, now)
	tr.sent(3, false, now)
	if tr.late(now.Add(time.Second)) || !tr.late(now.Add(3*time.Second)) {
		t.Error("what is underway for 1 s is late, or for 3 s is not")
	}
	if tr.reported(65000, 0) || !tr.reported(65535, 0) || tr.reported(3, 0) {
		t.Error("the key was not reported once")
	}
	if tr.late(now.Add(time.Hour)) {
		t.Error("all was reported, and something is late")
	}
	if tr.reported(3, 20); !tr.late(now) {
		t.Error("a loss of 20/256 is not late")
	}
	for i := range 1000 {
		tr.sent(uint16(i+4), false, now)
	}
	if len(tr.ends) > trailMost {
		t.Error("it remembers everything")
	}
}
