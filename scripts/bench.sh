#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the benchmarks of a build, one at a time; the results stay in BUILD/bench/results.
# Usage: bench.sh BUILD [PART [OPTION...]]
#   core         programs that measure one piece of the code each
#   host         the adapter between two processes of one host
#   wire         between two hosts
#   connections  making connections
#   crowd        many pairs of programs on two cores
#   fabric       between nodes of a fabric
#   all          all of these, the default
# Options are those of host.py and its like: --quick, --rounds N, --json.
set -euo pipefail

build=$1
part=${2:-all}
shift $(($# < 2 ? $# : 2))
here=$(dirname "$0")
results=$build/bench/results
mkdir -p "$results"

core() {
  local program
  for program in "$build"/bench/*_bench; do
    printf '\n== %s\n' "$(basename "$program")"
    "$program" | tee "$results/$(basename "$program").txt"
  done
}

compare() { # name [option...]
  printf '\n== %s\n' "$1"
  /usr/bin/python3 "$here/../bench/$1.py" --build "$build" --save "$results/$1.json" "${@:2}" ||
    [[ $? -eq 77 ]] # it has printed why it cannot run
}

case $part in
  core) core ;;
  host | wire | connections | crowd | fabric) compare "$part" "$@" ;;
  all)
    rm -f "$results"/* # so that all results are of one run
    core
    status=0 # the rest is measured also when one program fails
    for each in host wire connections crowd fabric; do compare "$each" "$@" || status=1; done
    exit "$status"
    ;;
  *)
    echo "bench: there is no part '$part'; there are core, host, wire, connections, crowd, fabric and all" >&2
    exit 2
    ;;
esac
