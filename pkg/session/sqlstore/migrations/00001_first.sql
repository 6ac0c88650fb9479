-- One text for SQLite and PostgreSQL. Times are milliseconds of the database's own
-- clock.

-- +goose Up
-- One row a session. token_hash is the SHA-256 of the holder's token. A row stays
-- when its fence is let go: it carries the publication to the next generation.
CREATE TABLE session_fences (
	scope_key              TEXT   NOT NULL PRIMARY KEY,
	work_id                TEXT   NOT NULL,
	generation             BIGINT NOT NULL,
	owner_id               TEXT   NOT NULL,
	token_hash             TEXT   NOT NULL,
	expires_at_ms          BIGINT NOT NULL,
	revision               BIGINT NOT NULL DEFAULT 0,
	publication_json       TEXT,
	publication_generation BIGINT
);

CREATE TABLE session_orphans (
	id                 TEXT   NOT NULL PRIMARY KEY,
	tenure_json        TEXT   NOT NULL,
	lease_json         TEXT   NOT NULL,
	reason             TEXT   NOT NULL,
	attempts           BIGINT NOT NULL DEFAULT 0,
	last_error         TEXT   NOT NULL,
	enqueued_at_ms     BIGINT NOT NULL,
	next_attempt_at_ms BIGINT NOT NULL
);

CREATE INDEX session_orphans_due ON session_orphans (next_attempt_at_ms, id);

-- lease_json is null until the machine is there.
CREATE TABLE session_intents (
	id          TEXT   NOT NULL PRIMARY KEY,
	scope_key   TEXT   NOT NULL,
	generation  BIGINT NOT NULL,
	tenure_json TEXT   NOT NULL,
	lease_json  TEXT,
	begun_at_ms BIGINT NOT NULL
);

-- +goose Down
DROP TABLE session_intents;
DROP TABLE session_orphans;
DROP TABLE session_fences;
