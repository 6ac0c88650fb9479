// Package sqlitefile opens SQLite database files as all of this project are: by
// one writer, with a journal of their own that readers do not wait for, for no
// other user to read. Whoever opens one imports the driver "sqlite".
package sqlitefile

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// Sync is what a commit waits for.
type Sync string

// After a power cut Full keeps every commit that was answered, and Normal may have
// lost the last ones; neither leaves a damaged file.
const (
	Full   Sync = "FULL"
	Normal Sync = "NORMAL"
)

// Open opens or makes the file, with mode 0600. Calls queue for the one connection
// there is, and honour their context meanwhile.
func Open(path string, wait Sync) (*sql.DB, error) {
	// SQLite makes its journal files with the mode of the main file, so that mode
	// is set before the first page is written.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, fmt.Errorf("protect database: %w", err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=journal_mode(WAL)&_pragma=synchronous("+string(wait)+")"+
		"&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}
