package token_test

import (
	"testing"

	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/vm"
)

func TestCan(t *testing.T) {
	tests := []struct {
		scopes []string
		can    map[string]bool
	}{
		{nil, map[string]bool{"read": false, "write": false, "admin": false}},
		{[]string{"read"}, map[string]bool{"read": true, "write": false, "admin": false}},
		{[]string{"write"}, map[string]bool{"read": true, "write": true, "admin": false}},
		{[]string{"admin"}, map[string]bool{"read": true, "write": true, "admin": true}},
	}
	for _, tt := range tests {
		for scope, want := range tt.can {
			if got := (token.Principal{Scopes: tt.scopes}).Can(scope); got != want {
				t.Errorf("%v can %s: %t", tt.scopes, scope, got)
			}
		}
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := token.NewID('d')
		if err := vm.ID(id).Validate(); err != nil || seen[id] {
			t.Fatalf("id %q, seen %t, %v", id, seen[id], err)
		}
		seen[id] = true
	}
	if a, b := token.New(), token.New(); a == b || len(a) != len(token.Prefix)+32 {
		t.Errorf("tokens %q, %q", a, b)
	}
}
