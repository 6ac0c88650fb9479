-- +goose Up
CREATE TABLE desktops (
    id          TEXT PRIMARY KEY,
    project     TEXT NOT NULL,
    name        TEXT NOT NULL,
    state       TEXT NOT NULL,
    incarnation TEXT NOT NULL UNIQUE,
    link_token  TEXT NOT NULL,
    guest_user  TEXT NOT NULL,
    body        BLOB NOT NULL,
    created_ns  INTEGER NOT NULL,
    deleted_ns  INTEGER NOT NULL DEFAULT 0
) STRICT;
-- A name is free again when its desktop is gone.
CREATE UNIQUE INDEX desktops_name ON desktops (project, name) WHERE deleted_ns = 0;
CREATE INDEX desktops_deleted ON desktops (deleted_ns) WHERE deleted_ns > 0;

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    project    TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    created_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
    project    TEXT NOT NULL,
    key        TEXT NOT NULL,
    hash       BLOB NOT NULL,
    resource   TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    PRIMARY KEY (project, key)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE keys;
DROP TABLE tokens;
DROP TABLE desktops;
