#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Debian's own perftest between two processes of this host, through Verbatim, with TCP beside it. No root,
# no RDMA hardware, no kernel module. Usage: demo.sh build/release
set -euo pipefail

verbatim=$1/bin/verbatim
[[ -x $verbatim ]] || { echo "demo: $verbatim is missing; run 'make build'" >&2; exit 1; }
export VERBATIM_DEVICES=lo
work=$(mktemp -d)
servers=()
trap 'for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

# Runs a perftest program as server and client; the client's output is in $work/client.
pair() {
  local port=$((20000 + RANDOM % 20000))
  "$verbatim" run "$@" -d vb0 -p "$port" >"$work/server" 2>&1 &
  servers+=($!)
  for _ in $(seq 50); do
    sleep 0.1
    if "$verbatim" run "$@" -d vb0 -p "$port" 127.0.0.1 >"$work/client" 2>&1; then return 0; fi
    grep -q "Couldn't connect" "$work/client" || break
  done
  echo "demo: '$*' failed:" >&2
  tail -n 5 "$work/client" "$work/server" >&2
  return 1
}
# Column of the line behind perftest's header.
figure() { awk -v column="$1" '/#bytes/ {header = 1; next} header && NF {print $column; exit}' "$work/client"; }

qperf >/dev/null 2>&1 & servers+=($!)
sleep 0.5
tcp() { qperf -t 1 -m "$2" -u 127.0.0.1 "$1" 2>/dev/null | awk '/=/ {print $3, $4}'; }
tcp_bandwidth=$(tcp tcp_bw 65536)
tcp_latency=$(tcp tcp_lat 8)

printf '\nBetween two processes of this host, %s\n\n' "$(uname -sm)"
printf '  %-44s %14s\n' "TCP, 64 KiB messages (qperf tcp_bw)" "$tcp_bandwidth"
printf '  %-44s %14s\n' "TCP, 8 octets, half a round trip (tcp_lat)" "$tcp_latency"
pair ib_write_bw -s 65536 -n 5000
printf '  %-44s %9s MB/s\n' "Verbatim, ib_write_bw 64 KiB" "$(figure 4)"
pair ib_write_lat -s 8 -n 5000
printf '  %-44s %9s us\n' "Verbatim, ib_write_lat 8 octets" "$(figure 5)"
pair ib_send_lat -s 8 -n 5000
printf '  %-44s %9s us\n' "Verbatim, ib_send_lat 8 octets" "$(figure 5)"
cat <<'TEXT'

These are unmodified programs from the distribution. On one host the posting thread writes into the memory
of its peer itself; with VERBATIM_PATH=packet in the environment, as between hosts, every octet goes through
RoCEv2 packets on UDP port 4791. `build/release/bin/verbatim demo` shows such packets one by one, on a
network that loses some.
TEXT
