#!/bin/bash
# Everything that proves the project, real guest included. Installs what it
# needs. TESTDATA keeps the image between runs.
#
# "host" builds, vets and tests the packages, each of them once: with the race
# detector and with the tests that need real programs; what has passed on the same
# sources is not run again. "guest" builds the image and tests on it. One after the
# other: emulated guests take all cores there are, and what fails shall fail for a
# reason. `scripts/test.sh host` runs one of them alone.
#
# The whole shall stay below 45 minutes whatever is added: each says what it spent its
# time on. LIMIT seconds, which leave a slow machine some room, end what hangs.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TESTDATA:?set by the Makefile}"
LIMIT=${LIMIT:-3600}
began=$SECONDS
step() { printf '\n== %s (%s s)\n' "$1" "$((SECONDS - began))"; }

# slowest names the lines of a log that took longest: those that a pattern finds,
# which end in seconds.
slowest() {
	echo "slowest:"
	grep -oE "$2" "$1" | sed -E 's/^(ok|worked:|--- PASS:)[ \t]+//' |
		awk '{ t = $NF; gsub(/[()s]/, "", t); if (t + 0 >= 5) print t, $0 }' | sort -rn | head -n "$3" | cut -d' ' -f2- | sed 's/^/  /' || true
}

# again runs the tests that failed in a log once more, each alone, with the command
# that is given: where others load the machine, one may have been late. They are
# named, and it fails for what fails twice, for more than five, for a data race,
# and for what is not one test's failure.
again() {
	local log=$1 pkg name
	shift
	if grep -qE 'DATA RACE|^panic: |\[(build|setup) failed\]' "$log"; then return 1; fi
	awk '/^--- FAIL: / { names[n++] = $3 }
		/^FAIL\t/ { if (!n) print $2, "-"; for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' "$log" >"$log.failed"
	if [ "$(wc -l <"$log.failed")" -gt 5 ] || [ ! -s "$log.failed" ] || grep -q ' -$' "$log.failed"; then return 1; fi
	while read -r pkg name; do
		step "failed, so once more, alone: $name of $pkg"
		"$@" -count=1 -v -run "^$name\$" "$pkg" </dev/null || return 1
		echo "FLAKY: $name of $pkg failed once and passed alone"
	done <"$log.failed"
}

host() {
	local status=0
	step "build, vet"
	make --no-print-directory cross vet || status=$?
	step "pages: their tests, and whether what is embedded was built from what is here"
	{ npm ci --prefix web && npm test --prefix web && make --no-print-directory web &&
		git diff --exit-code --stat -- web/dist; } || status=$?
	step "tests of packages"
	# What is cached there is Debian's packages for the small images of the tests.
	export DESKFORK_TEST_CACHE=$TESTDATA/test-cache
	# -p: most packages with real programs wait for them.
	# First the one that waits most. -vet: it is done.
	export GORACE=atexit_sleep_ms=50
	local test=(go test -race -tags integration,robotgo -vet=off -timeout 20m -skip 'ADesktop$')
	"${test[@]}" -p 3 ./pkg/vm/qemu ./cmd/... ./internal/... ./pkg/... ./test/arch ./test/harness 2>&1 | tee "$logs/host" ||
		again "$logs/host" "${test[@]}" || status=$?
	slowest "$logs/host" '^ok[[:space:]]+.*[0-9.]+s$' 8
	return $status
}

guest() {
	export DESKFORK_TEST_CACHE=$TESTDATA/test-cache
	step "image debian-xfce"
	bin/vmhost --data-dir "$TESTDATA" image build images/debian-xfce
	step "end to end, on a real guest"
	# Pictures of failures stay in artifacts/.
	mkdir -p "$TESTDATA/artifacts"
	local status=0
	export DESKFORK_E2E_DATA=$TESTDATA
	local test=(go test -tags integration -timeout 35m)
	"${test[@]}" -count=1 -v -artifacts -outputdir "$TESTDATA/artifacts" ./test/e2e 2>&1 | tee "$logs/guest" ||
		again "$logs/guest" "${test[@]}" || status=$?
	step "tests of packages on the real image: their names end in ADesktop"
	"${test[@]}" -count=1 -v -run 'ADesktop$' ./pkg/vm/qemu 2>&1 | tee "$logs/adesktop" ||
		again "$logs/adesktop" "${test[@]}" || status=$?
	slowest "$logs/guest" 'worked: .*' 20
	return $status
}

# more are the long forms of what the guest lane does once: three quarters of an
# hour.
more() {
	export DESKFORK_TEST_CACHE=$TESTDATA/test-cache
	bin/vmhost --data-dir "$TESTDATA" image build images/debian-xfce
	step "fifty cycles of all verbs, rests of a minute, cold boots"
	DESKFORK_E2E_CYCLES=50 DESKFORK_E2E_DATA=$TESTDATA go test -tags integration -count=1 -timeout 60m -v \
		-run 'TestScene$|TestRestedClock|TestBootSnapshotDamaged' ./test/e2e
	step "workspaces: a store that is away, disks that are full, a gigabyte"
	DESKFORK_E2E_DATA=$TESTDATA go test -tags integration,more -count=1 -timeout 60m -v -run 'TestLong' ./test/e2e
	step "packages by an installer that compiles"
	command -v cargo >/dev/null || scripts/deps.sh more
	go test -tags integration,more -count=1 -v -run 'TestLong' ./pkg/session/packages
	step "a process of which nothing is heard for ten minutes"
	go test -tags integration,more -count=1 -timeout 15m -v -run 'TestLong' ./internal/server/sandboxes
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
case ${1:-} in
host | guest | more)
	"$1"
	step "done"
	exit
	;;
esac

step "packages"
scripts/deps.sh run image build test
step "programs"
make --no-print-directory build
failed=
lane() {
	local left=$((LIMIT + began - SECONDS))
	timeout "$((left > 60 ? left : 60))" scripts/test.sh "$1" || failed+=" $1 ($?)"
}
lane host
lane guest
step "${failed:+failed:$failed; }done"
[ -z "$failed" ]
