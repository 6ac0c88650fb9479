#!/bin/bash
# Stops what `make up` started: its desktop, then the daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?set by the Makefile}"
name=${NAME:-first}
if [ -x bin/vmhost ] && bin/vmhost --data-dir "$DATA" version --server >/dev/null 2>&1; then
	if bin/vmhost --data-dir "$DATA" inspect "$name" >/dev/null 2>&1; then
		# A demonstration that was cut off has left children.
		mapfile -t children < <(bin/vmhost --data-dir "$DATA" ls -q --filter label=deskfork-demo)
		bin/vmhost --data-dir "$DATA" rm -f "$name" "${children[@]}"
	fi
fi
[ -f "$DATA/up.pid" ] || exit 0
pid=$(cat "$DATA/up.pid")
# The number may belong to another program by now.
if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "vmhost .*serve"; then
	kill -TERM "$pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
fi
rm -f "$DATA/up.pid"
