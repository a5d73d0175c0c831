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

# Each test runs once: a test that fails once shows a defect of the code or of the test. Those that need the
# machine for themselves say so to ctest (PROCESSORS, RUN_SERIAL).
run() { # preset [ctest argument...]
  ctest --preset "$1" -j "$jobs" "${@:2}"
}

# The same simulated histories, 200 of the 2,000 that `release` runs: sanitizers are many times slower.
run_short() {
  VERBATIM_HISTORIES=${VERBATIM_HISTORIES:-200} run "$@"
}

step_format() { scripts/check_format.sh; }
step_layers() { python3 cmake/check_layers.py src; }
# Most tests of `make test` are compiled in one of the steps only. What a program sees runs as programs will run it, and so
# do simulations, of which optimised code runs more, and races, which it alone shows. The rest, which compares what the code does with what
# it should do, runs with the sanitizers, and so do simulations and races.
step_release() {
  build release {device,abi,sim,race}_tests programs &&
    run release -L 'layers|abi|device|conformance|sim|race'
}
step_release-all() { build release && run release; }
# Of the device tests only those that use most of the interface. clang++ compiles this in half of the time that g++ takes.
step_sanitizers() { build clang {unit,sim,fuzz,core}_tests && run_short clang -L 'unit|sim|fuzz|core'; }
step_dev() { build dev {unit,sim,fuzz,core}_tests && run_short dev -L 'unit|sim|fuzz|core'; }
step_dev-all() { build dev && run_short dev -L 'unit|sim|fuzz|device'; }
step_clang() { build clang && run_short clang -L 'unit|sim|fuzz|device'; }
# Only tests that start threads, or share memory between them: for others the thread sanitizer finds nothing.
# Not connect_test: its tests close descriptors that other threads wait for, as programs do.
# Children of tests with threads open devices, which starts threads: the sanitizer is configured to allow it.
step_tsan() {
  local programs=(base_race host host_race interface_changes memory_race rdmacm transport_race umad verbs_threads)
  build tsan "${programs[@]/%/_test}" &&
    TSAN_OPTIONS=die_after_fork=0 run tsan -R "^($(IFS='|'; echo "${programs[*]}"))_test$"
}
step_fuzz() { build fuzz fuzz_tests && run fuzz; }
step_x86() {
  if [[ $(uname -m) == x86_64 ]]; then
    echo "this machine is x86-64: the other steps are that test"
  else
    # A history takes the emulator more than a second.
    build x86 && VERBATIM_HISTORIES=${VERBATIM_HISTORIES:-50} run x86
  fi
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
for step in "$@"; do
  printf '\n== %s: %s\n' "$step" "$(describe "$step")"
  started=$SECONDS
  log=build/$step.log
  if "step_$step" 2>&1 | tee "$log"; then verdict=ok; else verdict=FAILED failed=1; fi
  # ctest's closing line, where the step got that far.
  tests=$(grep -E '% tests passed' "$log" | tail -n 1)
  summary+=("$(printf '%-10s %-7s %4d s  %s' "$step" "$verdict" $((SECONDS - started)) "$tests")")
done

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
if [[ $failed -eq 0 ]]; then
  echo "all of it passed, in $SECONDS s"
else
  echo "NOT all of it passed; see build/<step>.log"
fi
exit "$failed"
