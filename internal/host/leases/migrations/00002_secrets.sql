-- +goose Up
-- One row a program that was started with secrets and was not seen to have ended with
-- all that it had started.
CREATE TABLE secrets (
    runtime TEXT NOT NULL,
    exec    TEXT NOT NULL,
    PRIMARY KEY (runtime, exec)
) STRICT;

-- +goose Down
DROP TABLE secrets;
