#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the format of src, tests and bench by .clang-format. Usage: check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)

find src tests bench -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -print0 |
  xargs -0 --no-run-if-empty clang-format --style=file "${mode[@]}"
