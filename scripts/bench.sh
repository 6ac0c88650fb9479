#!/bin/bash
# Side by side figures on a real guest; docs/BENCHMARKS.md says what they mean.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TESTDATA:?set by the Makefile}"
scripts/deps.sh run image build test
make --no-print-directory -s build
bin/vmhost --data-dir "$TESTDATA" image build images/debian-xfce
export DESKFORK_TEST_CACHE=$TESTDATA/test-cache # the S3 server is built once
case " $* " in
*" viewer "*) # first a screen that is no guest's
	go test -tags integration -run '^$' -bench Synthetic -benchtime 1x ./test/bench/viewing
	;;
esac
exec go run -tags integration ./test/bench -data "$TESTDATA" "$@"
