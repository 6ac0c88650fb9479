#!/bin/bash
# Starts vmhost serve for DATA unless it answers, and waits until it does.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DATA:?set by the Makefile}"
vmhost() { bin/vmhost --data-dir "$DATA" "$@"; }

mkdir -p "$DATA"
if vmhost version --server >/dev/null 2>&1; then exit 0; fi
setsid nohup bin/vmhost --data-dir "$DATA" serve >>"$DATA/vmhost.log" 2>&1 &
pid=$!
echo "$pid" >"$DATA/up.pid"
until vmhost version --server >/dev/null 2>&1; do
	if ! kill -0 "$pid" 2>/dev/null; then
		echo "vmhost serve ended at once; the end of $DATA/vmhost.log:" >&2
		tail -n 20 "$DATA/vmhost.log" >&2
		exit 1
	fi
	sleep 0.2
done
