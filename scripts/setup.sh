#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing; silent and quick when none is.
# Usage: setup.sh [x86 | cross | bench | package | compilers]
# also what `make test-x86`, `make package-other`, `make bench`, `make package` and `make test-packages`, or
# `make compilers` needs
set -euo pipefail

packages=(
  cmake               # the build
  ninja-build         # what CMake drives
  g++                 # first compiler
  clang               # second compiler: thread-safety analysis, libFuzzer
  libclang-rt-14-dev  # clang's sanitizer and fuzzer runtimes
  llvm                # llvm-symbolizer: names in their stack traces
  clang-format        # the format check
  ccache              # makes a second build of the same sources quick
  python3             # the layer check
  googletest          # sources of GoogleTest, built once per compiler and sanitizer
  nlohmann-json3-dev  # --json of the command; tests read golden packets
  libbenchmark-dev    # bench/
  libisal-dev         # bench/: the CRC that Verbatim's is compared with
  libcli11-dev        # command line of the `verbatim` tool
  libibverbs-dev      # headers that define the ABI
  librdmacm-dev       # likewise
  libibumad-dev       # likewise
  perftest            # demo and conformance: the programs that must run unmodified
  ibverbs-utils       # likewise
  infiniband-diags    # likewise: ibstat, ibstatus, and what shows a fabric
  opensm              # likewise: manages the subnet of a fabric
  ibutils             # likewise: ibdmchk
  libfabric-bin       # likewise: fi_pingpong
  ucx-utils           # likewise: ucx_perftest
  openmpi-bin         # likewise: mpirun, over UCX
  python3-mpi4py      # conformance: what it runs
  rdmacm-utils        # likewise: rping, ucmatose, udaddy, mckey, cmtime
  qperf               # likewise, and TCP beside them
  python3-pyverbs     # conformance: rdma-core's own tests
  tshark              # conformance: reads the packets
  iproute2            # conformance: network namespaces
  util-linux          # conformance: setpriv
)
x86_packages=(
  g++-x86-64-linux-gnu  # cross compiler
  qemu-user             # runs what it built
)
bench_packages=(
  iperf3           # TCP for comparison
  sockperf         # UDP for comparison
  libucx-dev       # UCX for comparison, for what ucx_perftest does not measure
  libopenmpi-dev   # Open MPI for comparison
  libfabric-dev    # libfabric for comparison
  pkgconf          # finds these libraries
)

package_packages=(
  dpkg-dev         # which packages of Debian the libraries need
  file             # which files are programs
  binutils         # takes the debug symbols out
  lintian          # judges the packages
  mmdebstrap       # makes a clean Debian to install them in
  man-db           # judges the man pages
  bash-completion  # what the completion of the command is written for
)
compiler_packages=(g++-11 g++-12 clang-13 clang-14 clang-15 clang-16 clang-19)

if [[ ${1:-} == x86 || ${1:-} == cross ]] && [[ $(uname -m) != x86_64 ]]; then
  packages+=("${x86_packages[@]}")
fi
[[ ${1:-} == cross && $(uname -m) == x86_64 ]] && packages+=(g++-aarch64-linux-gnu)
[[ ${1:-} == bench ]] && packages+=("${bench_packages[@]}")
[[ ${1:-} == package ]] && packages+=("${package_packages[@]}")
[[ ${1:-} == compilers ]] && packages+=("${compiler_packages[@]}")

is_installed() {
  [[ $(dpkg-query -W -f=' ${db:Status-Status} ' "$1" 2>/dev/null) == *" installed "* ]]
}

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; if the build misses something, it is in these packages: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $EUID -eq 0 ]]; then
  as_root=(env)
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
else
  {
    echo "setup: these packages are missing, and installing them needs root. Please run:"
    echo
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    echo
  } >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0
  -o Acquire::http::Timeout=30 -o Acquire::Retries=3)
# A mirror's connection that stalls without an error was seen to hold `update` for ever.
for limit in 60 120 240; do
  if timeout "$limit" "${apt[@]}" update; then break; fi
  echo "setup: reading the lists of packages failed or took more than $limit s" >&2
done
"${apt[@]}" install --no-install-recommends "${missing[@]}"
