# Removes the paths given as arguments, whichever subordinate id owns what is in them.
set -eu
rm -rf -- "$@"
