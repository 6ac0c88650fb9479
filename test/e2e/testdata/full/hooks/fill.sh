#!/bin/sh
set -eu
cat /dev/zero >/filler
