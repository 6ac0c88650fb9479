# Writes the list of $ROOT to $WORK/tree.list: fields ended by NUL, see parseTree.
set -eu
find "$ROOT" -xdev -printf '%y\0%m\0%U\0%G\0%T@\0%s\0%P\0%l\0' >"$WORK/tree.list"
