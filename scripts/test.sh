#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the named steps one after the other, all of them even when one fails, and ends with a summary.
# Usage: test.sh format layers release release-all sanitizers dev dev-all tsan clang fuzz x86
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
summary=()
failed=0

build() { # preset [target...]
  local preset=$1
  shift
  cmake --preset "$preset" >"build/$preset.configure.log" 2>&1 ||
    { cat "build/$preset.configure.log"; return 1; }
  cmake --build --preset "$preset" -j "$jobs" "${@/#/--target=}"
}

# Each test runs once: a test that fails once shows a defect of the code or of the test. Most tests leave part of a
# processor unused, so ctest gets half a processor more for each. Tests that need the machine for themselves say so:
# RUN_SERIAL, PROCESSORS, and the label `alone` for those during which nothing may be compiled.
run() { # preset [ctest argument...]
  local result=0
  ctest --preset "$1" -j "$((jobs + (jobs + 1) / 2))" "${@:2}" -LE alone || result=1
  wait # for the compilation of the next step
  if ctest --preset "$1" "${@:2}" -L alone -N | grep -q ' Test .*#'; then
    ctest --preset "$1" "${@:2}" -L alone || result=1
  fi
  return "$result"
}

# The same simulated histories, 200 of the 2,000 that `release` runs: sanitizers are many times slower.
run_short() {
  VERBATIM_HISTORIES=${VERBATIM_HISTORIES:-200} run "$@"
}

# A step checks something, or it builds and runs tests. While its tests run, the next step is compiled.
check_format() { scripts/check_format.sh; }
check_layers() { python3 cmake/check_layers.py src; }
# Most tests of `make test` are compiled in one of the steps only. What a program sees runs as programs will run it, and so
# do simulations, of which optimised code runs more, and races, which it alone shows. The rest, which compares what the code does with what
# it should do, runs with the sanitizers, and so do simulations and races.
build_release() { build release {device,abi,conformance,sim,race}_tests programs; }
run_release() { run release -L 'layers|abi|device|conformance|sim|race'; }
build_release-all() { build release; }
run_release-all() { run release; }
# Of the device tests only those that use most of the interface. clang++ compiles this in half of the time that g++ takes.
build_sanitizers() { build clang {unit,sim,fuzz,core}_tests; }
run_sanitizers() { run_short clang -L 'unit|sim|fuzz|core'; }
build_dev() { build dev {unit,sim,fuzz,core}_tests; }
run_dev() { run_short dev -L 'unit|sim|fuzz|core'; }
build_dev-all() { build dev; }
run_dev-all() { run_short dev -L 'unit|sim|fuzz|device'; }
build_clang() { build clang; }
run_clang() { run_short clang -L 'unit|sim|fuzz|device'; }
# Only tests that start threads, or share memory between them: for others the thread sanitizer finds nothing.
# Not connect_test: its tests close descriptors that other threads wait for, as programs do.
# Children of tests with threads open devices, which starts threads: the sanitizer is configured to allow it.
racing=(base_race host host_race interface_changes memory_race rdmacm transport_race umad verbs_threads)
build_tsan() { build tsan "${racing[@]/%/_test}"; }
run_tsan() { TSAN_OPTIONS=die_after_fork=0 run tsan -R "^($(IFS='|'; echo "${racing[*]}"))_test$"; }
build_fuzz() { build fuzz fuzz_tests; }
run_fuzz() { run fuzz; }
build_x86() { [[ $(uname -m) == x86_64 ]] || build x86; }
run_x86() {
  if [[ $(uname -m) == x86_64 ]]; then
    echo "this machine is x86-64: the other steps are that test"
  else
    # A history takes the emulator more than a second.
    VERBATIM_HISTORIES=${VERBATIM_HISTORIES:-50} run x86
  fi
}

builds() { declare -F "build_${1:-}" >/dev/null; }

# Compiles a step with the lowest priority; build/STEP.built has its exit status.
build_ahead() { # step
  renice -n 19 "$BASHPID" >/dev/null
  "build_$1" >"build/$1.build.log" 2>&1
  echo $? >"build/$1.built"
}

step() { # step [next step]
  builds "$1" || { "check_$1"; return; }
  local result=0
  if [[ -e build/$1.built ]]; then
    cat "build/$1.build.log"
    result=$(<"build/$1.built")
  else
    "build_$1" || result=1
  fi
  [[ $result -eq 0 ]] || return 1
  if builds "${2:-}"; then build_ahead "$2" & fi
  "run_$1" || result=1
  wait
  return "$result"
}

describe() {
  case $1 in
    format) echo "clang-format over src, tests, bench" ;;
    layers) echo "every #include against src/LAYERS" ;;
    release) echo "g++ -O2: the libraries as programs see them, simulations, races" ;;
    release-all) echo "g++ -O2, all tests" ;;
    sanitizers) echo "clang++ with address and undefined-behaviour sanitizers: units, simulations, the quick device tests" ;;
    dev) echo "g++ with address and undefined-behaviour sanitizers: units, simulations, the quick device tests" ;;
    dev-all) echo "g++ with address and undefined-behaviour sanitizers, all tests" ;;
    tsan) echo "g++ with thread sanitizer, on what threads share" ;;
    clang) echo "clang++ with address and undefined-behaviour sanitizers, all tests" ;;
    fuzz) echo "clang++ with libFuzzer, a few seconds per target" ;;
    x86) echo "g++ for x86-64 under qemu" ;;
    *) return 1 ;;
  esac
}

for step in "$@"; do
  describe "$step" >/dev/null || { echo "test.sh: no step is called '$step'" >&2; exit 2; }
done

mkdir -p build
rm -f build/*.built
steps=("$@")
for at in "${!steps[@]}"; do
  name=${steps[at]}
  printf '\n== %s: %s\n' "$name" "$(describe "$name")"
  started=$SECONDS
  log=build/$name.log
  if step "$name" "${steps[at + 1]:-}" 2>&1 | tee "$log"; then verdict=ok; else verdict=FAILED failed=1; fi
  # ctest's closing lines, where the step got that far.
  tests=$(grep -E '% tests passed' "$log" | paste -sd ';')
  summary+=("$(printf '%-10s %-7s %4d s  %s' "$name" "$verdict" $((SECONDS - started)) "$tests")")
done

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
if [[ $failed -eq 0 ]]; then
  echo "all of it passed, in $SECONDS s"
else
  echo "NOT all of it passed; see build/<step>.log"
fi
exit "$failed"
