#!/bin/bash
# Everything that proves the project, real guest included. Installs what it
# needs. TESTDATA keeps the image between runs.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TESTDATA:?set by the Makefile}"
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

step "packages"
scripts/deps.sh run image build test
step "programs"
make --no-print-directory build
step "check"
make --no-print-directory check
step "image debian-xfce"
bin/vmhost --data-dir "$TESTDATA" image build images/debian-xfce
step "integration tests of single packages"
go test -tags integration,robotgo -count=1 -timeout 15m -p 1 ./pkg/... ./internal/... ./cmd/...
step "end to end, on a real guest"
# Pictures of failures stay in artifacts/.
mkdir -p "$TESTDATA/artifacts"
DESKFORK_E2E_DATA=$TESTDATA go test -tags integration -count=1 -timeout 40m -v -artifacts -outputdir "$TESTDATA/artifacts" ./test/e2e
step "done"
