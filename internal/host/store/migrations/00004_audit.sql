-- +goose Up
-- What happened to the control of desktops and who watched them. epoch is that of
-- the control lease after it, 0 where it says nothing about one; held is 1 while
-- somebody holds it.
CREATE TABLE audit (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    time_ns     INTEGER NOT NULL,
    project     TEXT NOT NULL,
    desktop     TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    what        TEXT NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0,
    held        INTEGER NOT NULL DEFAULT 0,
    who         TEXT NOT NULL DEFAULT '',
    kind        TEXT NOT NULL DEFAULT '',
    by          TEXT NOT NULL DEFAULT '',
    detail      TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX audit_desktop ON audit (desktop, seq);

-- +goose Down
DROP TABLE audit;
