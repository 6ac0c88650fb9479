#!/bin/sh
# Installs the Debian packages that are missing, saying what each is for.
# Usage: scripts/deps.sh GROUP...      (groups: see packaging/debian/packages.txt)
set -eu
list=$(dirname "$0")/../packaging/debian/packages.txt
missing=
case " $* " in
*" build "*) # Go is not Debian's: that of Debian 12 is too old
	want=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' "$(dirname "$0")/../go.mod")
	if ! command -v "${GO:-go}" >/dev/null; then
		echo "deps: Go $want is missing, or not in PATH: see https://go.dev/doc/install" >&2
		exit 1
	fi
	if ! out=$(cd "$(dirname "$0")/.." && "${GO:-go}" list -m 2>&1); then
		echo "deps: Go $want is needed (https://go.dev/doc/install), and $(command -v "${GO:-go}") says: $out" >&2
		exit 1
	fi
	;;
esac
for group in "$@"; do
	while read -r g package reason; do
		[ "$g" = "$group" ] || continue
		if ! dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
			missing="$missing $package"
			echo "  $package: $reason"
		fi
	done <"$list"
done
# What drives the browser in tests, and what it runs there, is no Debian package.
browser() {
	case " $* " in *" test "*) ;; *) return 0 ;; esac
	modules=$(dirname "$0")/../test/browser/node_modules
	[ ! -d "$modules/playwright-core" ] || [ ! -d "$modules/whip-whep" ] || return 0
	echo "  playwright-core: drives Chromium in tests"
	echo "  whip-whep: a WHEP client that is not ours"
	npm ci --prefix "$(dirname "$0")/../test/browser" --ignore-scripts --no-audit --no-fund
}
case " $* " in *" test "*)
	if ! command -v npm >/dev/null; then
		missing="$missing npm"
		echo "  npm: fetches playwright-core, which drives Chromium in tests"
	fi
	;;
esac
[ -n "$missing" ] || { browser "$@"; exit; }
if ! command -v apt-get >/dev/null; then
	echo "deps: this is not Debian; install the packages above by hand" >&2
	exit 1
fi
as=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "deps: run as root, or install sudo: the packages above are missing" >&2; exit 1; }
	as="sudo"
fi
echo "deps: installing the packages above"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	# shellcheck disable=SC2086 # words on purpose
	$as env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >"$log" 2>&1
}
install || { $as apt-get update >"$log" 2>&1 && install; } || { cat "$log" >&2; exit 1; }
browser "$@"
