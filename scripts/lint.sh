#!/bin/sh
# Runs golangci-lint at the given version, building it once into Go's bin
# directory.  Usage: scripts/lint.sh MODULE@VERSION [fmt]
set -eu
module=$1
want=${module##*@}
bin=$(go env GOPATH)/bin/golangci-lint-$want
if [ ! -x "$bin" ]; then
	echo "lint: building golangci-lint $want (once, some minutes)"
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	GOBIN=$dir GOFLAGS=-mod=mod go install "$module"
	mkdir -p "$(dirname "$bin")"
	mv "$dir/golangci-lint" "$bin"
fi
if [ "${2:-run}" = fmt ]; then
	exec "$bin" fmt
fi
exec "$bin" run ./...
