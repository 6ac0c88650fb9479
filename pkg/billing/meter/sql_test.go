package meter_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

// TestStormOnDatabases is TestStorm on the databases of real hosts.
func TestStormOnDatabases(t *testing.T) {
	t.Parallel()
	c := postgres.Start(t)
	for name, open := range map[string]func(*testing.T) (*sqlstore.Store, error){
		"sqlite": func(t *testing.T) (*sqlstore.Store, error) {
			t.Helper()
			return sqlstore.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "usage.db"))
		},
		"postgres": func(t *testing.T) (*sqlstore.Store, error) {
			t.Helper()
			return sqlstore.OpenPostgres(t.Context(), c.Database(t))
		},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				t.Parallel()
				s, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				storm(t, s, 1000+seed, 400)
			})
		}
	}
}
