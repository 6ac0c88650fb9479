package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Audit is one line of the audit log.
type Audit struct {
	api.AuditEntry

	Project string
	// Held says that somebody holds the control lease after it.
	Held bool
}

// Audits is the part of the database that is about what happened.
type Audits struct{ *Store }

// AddAudit adds a line; its Seq is not used.
func (s Audits) AddAudit(ctx context.Context, a Audit) error {
	_, err := s.db.ExecContext(ctx,
		`INSERT INTO audit (time_ns, project, desktop, incarnation, what, epoch, held, who, kind, by, detail)
		VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		a.Time.UnixNano(), a.Project, a.Desktop, a.Incarnation, a.What, int64(a.Epoch), a.Held, a.Who, a.Kind, a.By, a.Detail)
	if err != nil {
		return fmt.Errorf("write audit log of desktop %s: %w", a.Desktop, err)
	}
	return nil
}

const auditColumns = `seq, time_ns, project, desktop, incarnation, what, epoch, held, who, kind, by, detail`

// LastControl is the line of a desktop's newest epoch; ErrNotFound when its
// control never changed.
func (s Audits) LastControl(ctx context.Context, desktop string) (Audit, error) {
	a, err := scanAudit(s.db.QueryRowContext(ctx,
		`SELECT `+auditColumns+` FROM audit WHERE desktop = ? AND epoch > 0 ORDER BY epoch DESC, seq DESC LIMIT 1`, desktop))
	if errors.Is(err, sql.ErrNoRows) {
		return Audit{}, ErrNotFound
	}
	if err != nil {
		return Audit{}, fmt.Errorf("read audit log of desktop %s: %w", desktop, err)
	}
	return a, nil
}

// AuditLog lists the newest lines of a desktop, newest first, before a number (0:
// from the newest on).
func (s Audits) AuditLog(ctx context.Context, desktop string, before int64, limit int) ([]api.AuditEntry, error) {
	rows, err := s.db.QueryContext(ctx,
		`SELECT `+auditColumns+` FROM audit WHERE desktop = ? AND (? = 0 OR seq < ?) ORDER BY seq DESC LIMIT ?`,
		desktop, before, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read audit log of desktop %s: %w", desktop, err)
	}
	defer rows.Close()
	list := []api.AuditEntry{}
	for rows.Next() {
		a, err := scanAudit(rows)
		if err != nil {
			return nil, fmt.Errorf("read audit log of desktop %s: %w", desktop, err)
		}
		list = append(list, a.AuditEntry)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read audit log of desktop %s: %w", desktop, err)
	}
	return list, nil
}

func scanAudit(row scanner) (Audit, error) {
	var (
		a        Audit
		ns, when int64
	)
	err := row.Scan(&a.Seq, &ns, &a.Project, &a.Desktop, &a.Incarnation, &a.What, &when, &a.Held, &a.Who, &a.Kind, &a.By, &a.Detail)
	a.Time, a.Epoch = time.Unix(0, ns).UTC(), uint64(when)
	return a, err
}
