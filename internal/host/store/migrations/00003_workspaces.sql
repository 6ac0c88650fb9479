-- +goose Up
-- published is the checkpoint that counts, "workspace/checkpoint" as in the
-- store; empty before the first.
CREATE TABLE workspaces (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL,
    name       TEXT NOT NULL,
    published  TEXT NOT NULL DEFAULT '',
    created_ns INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX workspaces_name ON workspaces (project, name);

-- What was published in a workspace. A clone's first one is another workspace's.
CREATE TABLE checkpoints (
    workspace  TEXT NOT NULL REFERENCES workspaces (id),
    ref        TEXT NOT NULL,
    body       BLOB NOT NULL,
    created_ns INTEGER NOT NULL,
    PRIMARY KEY (workspace, ref)
) STRICT;

-- The checkpoint that a desktop's disk was at a point of the provider's.
CREATE TABLE attachments (
    desktop   TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    ref       TEXT NOT NULL,
    point     TEXT NOT NULL
) STRICT;

-- +goose Down
DROP TABLE attachments;
DROP TABLE checkpoints;
DROP TABLE workspaces;
