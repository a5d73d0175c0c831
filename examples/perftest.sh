#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Debian's perftest between two processes of this host, as an ordinary user.
# Usage: perftest.sh [PROGRAM [OPTION...]]     ib_write_bw unless given
set -eu
[ $# -gt 0 ] || set -- ib_write_bw
port=$((20000 + $$ % 20000))

verbatim run "$@" -p "$port" >/dev/null &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10; do
  sleep 0.5
  if verbatim run "$@" -p "$port" localhost; then exit 0; fi
done
exit 1
