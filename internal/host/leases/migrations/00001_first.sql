-- +goose Up
-- One row an incarnation. scope is the four ids as JSON, session the first three.
-- runtime and lease are null until the machine is there. The newest row of a scope
-- stays for its generation when the machine is gone.
CREATE TABLE sandboxes (
    id         INTEGER PRIMARY KEY,
    project    TEXT NOT NULL,
    scope      TEXT NOT NULL,
    session    TEXT NOT NULL,
    owner      TEXT NOT NULL,
    generation INTEGER NOT NULL,
    request    TEXT NOT NULL,
    runtime    TEXT,
    lease      TEXT,
    source     TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL,
    due_ms     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX sandboxes_runtime ON sandboxes (project, runtime);
CREATE INDEX sandboxes_scope ON sandboxes (project, scope, generation);
CREATE INDEX sandboxes_session ON sandboxes (project, session, state);
CREATE INDEX sandboxes_due ON sandboxes (state, due_ms);

-- +goose Down
DROP TABLE sandboxes;
