#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a copy of the sources that says it is another version, with another layout of what processes share, and installs
# it: for tests/packaging/two_versions_test.py, as long as there is no earlier release to test with.
# Usage: other_version.sh FOLDER; the installation is FOLDER/prefix.
set -euo pipefail

folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
mkdir -p "$folder/source"
cp -r CMakeLists.txt cmake src docs examples packaging ./*.md LICENSE "$folder/source"
cd "$folder/source"
sed -i 's/^project(verbatim VERSION [0-9.]*/project(verbatim VERSION 0.0.1/; /add_subdirectory(tests)/d' CMakeLists.txt
sed -i 's/kVersion = \([0-9]*\);/kVersion = 1000 + \1;/' src/host/segment_header.h
cmake -S . -B ../build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=g++ -DVB_TESTS=OFF >../configure.log
cmake --build ../build -j "${JOBS:-$(nproc)}" --target programs
cmake --install ../build --prefix ../prefix >../install.log
chmod 755 "$folder" "$folder/prefix"
