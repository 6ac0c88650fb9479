#!/bin/bash
# Stops what `make up` started: its desktop, then the daemon. Desktops outlive the
# daemon: those that others have made are named, and removed with ALL=1.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?set by the Makefile}"
name=${NAME:-first} all=${ALL:-}
vmhost() { bin/vmhost --data-dir "$DATA" "$@"; }
if [ -n "$all" ] && [ -x bin/vmhost ] && compgen -G "$DATA/desktops/*" >/dev/null; then
	scripts/serve.sh # which removes them
fi
if [ -x bin/vmhost ] && vmhost version --server >/dev/null 2>&1; then
	gone=()
	if [ -n "$all" ]; then
		mapfile -t gone < <(vmhost ls -q)
	elif vmhost inspect "$name" >/dev/null 2>&1; then
		# A demonstration that was cut off has left children.
		mapfile -t gone < <(vmhost ls -q --filter label=deskfork-demo)
		gone=("$name" "${gone[@]}")
	fi
	if [ "${#gone[@]}" -gt 0 ]; then vmhost rm -f "${gone[@]}"; fi
	if [ -n "$(vmhost ls -q)" ]; then
		echo "down: these desktops go on without the daemon; make down ALL=1 removes them too:" >&2
		vmhost ls >&2
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
