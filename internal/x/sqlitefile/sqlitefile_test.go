package sqlitefile_test

import (
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/deskfork/deskfork/internal/x/sqlitefile"
)

func TestOpen(t *testing.T) {
	// What is special in a URL is not in a path.
	path := filepath.Join(t.TempDir(), "a b?c#d%20.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for sync, want := range map[sqlitefile.Sync]int{sqlitefile.Normal: 1, sqlitefile.Full: 2} {
		db, err := sqlitefile.Open(path, sync)
		if err != nil {
			t.Fatal(err)
		}
		var mode string
		var level, keys int
		for pragma, to := range map[string]any{"journal_mode": &mode, "synchronous": &level, "foreign_keys": &keys} {
			if err := db.QueryRow("PRAGMA " + pragma).Scan(to); err != nil {
				t.Error(err)
			}
		}
		if mode != "wal" || level != want || keys != 1 {
			t.Errorf("%s: journal %s, synchronous %d, foreign keys %d", sync, mode, level, keys)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := sqlitefile.Open(filepath.Join(path, "below a file"), sqlitefile.Full); err == nil {
		t.Error("opened a file below a file")
	}
}
