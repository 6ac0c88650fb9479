package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/sessions/provision"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/pkg/vm"
)

// sessionFlags say where the fences of workspaces are kept, and what installers in
// machines are told.
type sessionFlags struct {
	database     string
	installerEnv []string
}

func (f *sessionFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.database, "session-database", "", "`URL` of a PostgreSQL database for the fences of workspaces, shared by hosts; leave the password to PGPASSFILE (default: a file in the data directory)")
	fl.StringArrayVar(&f.installerEnv, "installer-env", nil, "`KEY=VALUE` for what installs packages of runs, such as PIP_INDEX_URL or GOPROXY; may be repeated")
}

// open opens the database of fences.
func (f *sessionFlags) open(ctx context.Context, dataDir string) (*sqlstore.Store, error) {
	if f.database != "" {
		return sqlstore.OpenPostgres(ctx, f.database)
	}
	return sqlstore.OpenSQLite(ctx, filepath.Join(dataDir, sqlstore.FileName))
}

// fences are those of a database as the host needs them.
func fences(db *sqlstore.Store) workspaces.Fences {
	return workspaces.Fences{Fences: db.Stores().Fences, Publications: db.Publications}
}

// newSessions joins the database of fences to a host.
func newSessions(cfg serveConfig, h *host.Host, provider vm.Provider, db *sqlstore.Store) (*sessions.Desk, error) {
	_, suspends := provider.(vm.Snapshotter)
	env, err := parse.Pairs("installer-env", cfg.sessions.installerEnv)
	if err != nil {
		return nil, err
	}
	c := sessions.Config{
		Host: h, Stores: db.Stores(), Publications: db.Publications, DataDir: cfg.dataDir,
		Suspends: suspends, Exports: suspends && cfg.blobs.shared(), Logger: cfg.log,
		System: provision.System{Env: env},
	}
	if cfg.sessions.database != "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find the host's name: %w", err)
		}
		// Two daemons of one machine are two hosts; a data directory is not moved.
		sum := sha256.Sum256([]byte(cfg.dataDir))
		c.Node = name + "-" + hex.EncodeToString(sum[:4])
	} else { // the data directory is this process's alone, and the file with it
		c.EndLeases = func(ctx context.Context) error {
			n, err := db.EndLeases(ctx)
			if n > 0 {
				cfg.log.Warn("workspaces were held when the daemon ended; they are free", "count", n)
			}
			return err
		}
	}
	return sessions.New(c)
}
