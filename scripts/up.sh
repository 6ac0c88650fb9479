#!/bin/bash
# From a bare machine to a desktop under control; harmless to repeat.
# Environment: DATA (data directory), NAME (of the desktop, default "first").
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?set by the Makefile}"
name=${NAME:-first}
vmhost() { bin/vmhost --data-dir "$DATA" "$@"; }

echo "[1/5] packages"
scripts/deps.sh run image build
echo "[2/5] bin/vmhost, bin/guestd, bin/guest-helper"
make --no-print-directory -s build
echo "[3/5] image debian-xfce (some minutes when it is not built yet)"
vmhost image build images/debian-xfce
echo "[4/5] vmhost serve"
scripts/serve.sh
echo "[5/5] desktop $name (the first time its image's boot snapshot is sealed: one to three minutes)"
old=1
if ! vmhost inspect "$name" >/dev/null 2>&1; then
	old=
	vmhost create debian-xfce --name "$name" >/dev/null
fi
for state in paused suspended; do
	if [ -n "$(vmhost ls -q --filter "name=$name" --filter "state=$state")" ]; then vmhost resume "$name"; fi
done
if ! vmhost wait "$name"; then
	echo "up: bin/vmhost logs $name may say more; after bin/vmhost rm -f $name a second make up makes a new one" >&2
	exit 1
fi
# Somebody may work in a desktop that has been shown already.
if [ -n "$old" ] && [ -e screenshot.png ] && [ -e forks/sheet.png ]; then
	exec bin/vmhost --data-dir "$DATA" demo "$name" -o screenshot.png --look
fi
# What the demonstration says at its end is what to try next; without it the
# desktop is there none the less.
if ! vmhost demo "$name" -o screenshot.png --forks forks; then
	echo "up: the demonstration broke off; the desktop $name is there: bin/vmhost exec -it $name -- bash" >&2
	exit 1
fi
