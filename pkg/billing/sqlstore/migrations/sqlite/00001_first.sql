-- +goose Up
-- Times are nanoseconds since 1970 UTC; acked_ns is 0 until a row is billed.
CREATE TABLE usage_rows (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation TEXT NOT NULL,
    kind        TEXT NOT NULL,
    start_ns    INTEGER NOT NULL,
    end_ns      INTEGER NOT NULL,
    value       INTEGER NOT NULL CHECK (value > 0),
    project     TEXT NOT NULL,
    session     TEXT NOT NULL,
    agent       TEXT NOT NULL,
    desktop     TEXT NOT NULL,
    recorded_ns INTEGER NOT NULL,
    acked_ns    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (incarnation, kind, start_ns)
) STRICT;
CREATE INDEX usage_rows_open ON usage_rows (project, id) WHERE acked_ns = 0;
CREATE INDEX usage_rows_start ON usage_rows (start_ns);

CREATE TABLE usage_marks (
    incarnation TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    body        BLOB NOT NULL
) STRICT;
CREATE INDEX usage_marks_host ON usage_marks (host);

-- +goose Down
DROP TABLE usage_marks;
DROP TABLE usage_rows;
