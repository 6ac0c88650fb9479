package replay_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/deskfork/deskfork/internal/x/replay"
)

func TestJoin(t *testing.T) {
	var b replay.Buffer
	b.Append([]byte("abc")) // before there was a link
	first, err := b.Join(100)
	if err != nil || string(first) != "abc" {
		t.Fatalf("first link begins with %q, %v", first, err)
	}
	b.Append([]byte("defgh"))
	b.Confirm(102)
	b.Confirm(101) // late
	for _, tt := range []struct {
		have int64
		want string
	}{{103, "defgh"}, {103, "defgh"}, {107, "h"}, {108, ""}, {200, ""}} {
		if again, err := b.Join(tt.have); err != nil || string(again) != tt.want {
			t.Errorf("a receiver that has %d gets %q, %v; want %q", tt.have, again, err, tt.want)
		}
	}
	b.Append([]byte("xy"))
	if again, err := b.Join(201); err != nil || string(again) != "y" {
		t.Errorf("after another feeder: %q, %v", again, err)
	}
	var gap *replay.GapError
	if _, err := b.Join(200); !errors.As(err, &gap) || gap.Want != 200 || gap.Have != 201 {
		t.Errorf("a receiver that forgot: %v", err)
	}
}

// TestAnyCuts: whatever is confirmed when, and wherever links break, the
// receiver has each byte once.
func TestAnyCuts(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := make([]byte, 5000)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		var b replay.Buffer
		var got []byte
		deliver := func(p []byte) (whole bool) {
			if rng.IntN(4) == 0 {
				got = append(got, p[:rng.IntN(len(p)+1)]...)
				return false
			}
			got = append(got, p...)
			return true
		}
		for sent, up := 0, false; len(got) < len(want); {
			if !up {
				again, err := b.Join(int64(len(got)))
				if err != nil {
					t.Fatal(err)
				}
				up = deliver(again)
				continue
			}
			chunk := want[sent:min(len(want), sent+rng.IntN(300))]
			sent += len(chunk)
			b.Append(chunk)
			up = deliver(chunk)
			if rng.IntN(2) == 0 {
				b.Confirm(rng.Int64N(int64(len(got) + 1)))
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes came, or not the same", seed, len(got))
		}
	}
}
