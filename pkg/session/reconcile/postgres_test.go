//go:build integration

package reconcile_test

import (
	"testing"

	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

func TestKillPostgres(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenPostgres(t.Context(), postgres.Start(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	killEverywhere(t, s.Stores(), sessiontest.SQL(s.DB(), nil).Advance)
}
