-- +goose Up
-- source is what a clone goes on from, until it is proven; asleep names the snapshot that a suspended desktop lies in; rests is 1 while a
-- desktop is paused by its policy.
ALTER TABLE desktops ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE desktops ADD COLUMN asleep TEXT NOT NULL DEFAULT '';
ALTER TABLE desktops ADD COLUMN rests INTEGER NOT NULL DEFAULT 0;

-- sealed holds what the API does not show: the desktop as it was at that instant
-- and the token of its link.
CREATE TABLE snapshots (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    body       BLOB NOT NULL,
    sealed     BLOB NOT NULL,
    created_ns INTEGER NOT NULL,
    deleted_ns INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX snapshots_name ON snapshots (project, name) WHERE deleted_ns = 0 AND name <> '';

-- +goose Down
DROP TABLE snapshots;
ALTER TABLE desktops DROP COLUMN rests;
ALTER TABLE desktops DROP COLUMN asleep;
ALTER TABLE desktops DROP COLUMN source;
