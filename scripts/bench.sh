#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every benchmark program in a folder, one at a time. Usage: bench.sh build/release/bench
set -euo pipefail

shopt -s nullglob
found=0
for program in "$1"/*; do
  [[ -f $program && -x $program ]] || continue
  found=1
  printf '\n== %s\n' "$(basename "$program")"
  "$program"
done
[[ $found -eq 1 ]] || { echo "bench: no benchmark in $1" >&2; exit 1; }
