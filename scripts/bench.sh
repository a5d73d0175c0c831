#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark program of a build, one at a time, then the adapter between two hosts, then its
# connections on one.
# Usage: bench.sh build/release
set -euo pipefail

shopt -s nullglob
found=0
for program in "$1"/bench/*; do
  [[ -f $program && -x $program ]] || continue
  found=1
  printf '\n== %s\n' "$(basename "$program")"
  "$program"
done
[[ $found -eq 1 ]] || { echo "bench: no benchmark in $1/bench" >&2; exit 1; }

printf '\n== wire\n'
here=$(dirname "$0")
/usr/bin/python3 "$here/../bench/wire.py" --build "$1" || [[ $? -eq 77 ]]  # 77: it has said why not

printf '\n== connections\n'
/usr/bin/python3 "$here/../bench/connections.py" --build "$1" || [[ $? -eq 77 ]]
