#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast is the adapter between two hosts, beside the kernel's TCP and UDP on the same wire?

Usage: wire.py --build build/release [--rounds 3] [--json]

Two network namespaces joined by a veth, one end of everything on core 0, the other on core 1;
unmodified perftest as nobody. Ours and what stands beside it take turns, and medians are shown.
Making namespaces needs root. Exit status: 0, 1 when something failed, 77 when it could not be tried.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/conformance"))
from hosts import NOBODY, Installation, Network  # noqa: E402

SKIPPED = 77
LIMIT = 30  # seconds for any one program
PROGRAMS = ("ib_write_bw", "ib_send_bw", "ib_send_lat", "ib_write_lat", "iperf3", "sockperf",
            "taskset", "chrt", "ip")
MIB = 1 << 20


class Failed(Exception):
    pass


class Bench:
    """Starts the two ends of one measurement and reads its number."""

    def __init__(self, network):
        self.network = network
        self.gid = network.server.gid_indices()[network.server.ipv4]
        self.port = 18000

    def _words(self, host, core, program):
        # Real time keeps whatever else the machine does out. Not where a program spins on memory: the
        # adapter's thread on the same core could never interrupt it.
        urgency = ["nice", "-n", "-20"] if "ib_write_lat" in program else ["chrt", "-f", "20"]
        return (["timeout", "-s", "KILL", str(LIMIT), *urgency, "taskset", "-c", str(core),
                 "ip", "netns", "exec", host.name] + NOBODY + program)

    def run(self, server_program, client_program, is_ready):
        """What the client prints. A server that serves for ever is ended."""
        server = subprocess.Popen(self._words(self.network.server, 0, server_program),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            deadline = time.monotonic() + 10
            while not is_ready() and time.monotonic() < deadline and server.poll() is None:
                time.sleep(0.05)
            client = subprocess.run(self._words(self.network.client, 1, client_program),
                                    capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if client.returncode != 0:
                raise Failed(f"{' '.join(client_program)}: status {client.returncode}\n"
                             + (client.stdout + client.stderr)[-1000:])
            return client.stdout
        finally:
            try:  # the whole session that was started here
                os.killpg(server.pid, 9)
            except ProcessLookupError:
                pass
            server.wait()

    def holds(self, protocol, port):
        """Whether a socket of the server's namespace has the port."""
        text = subprocess.run(["ip", "netns", "exec", self.network.server.name, "cat",
                               f"/proc/net/{protocol}", f"/proc/net/{protocol}6"],
                              capture_output=True, text=True).stdout
        return f":{port:04X} " in text

    def perftest(self, program, *options):
        """The columns of the last line of its table."""
        self.port += 1
        port = self.port
        words = [self.network.server.command, "run", "--devices", "e0", program, "-d", "vb0",
                 "-x", str(self.gid), "-p", str(port), "-F", *options]
        text = self.run(words, words + [self.network.server.ipv4], lambda: self.holds("tcp", port))
        rows = [line.split() for line in text.splitlines() if re.match(r"^ *\d+ +\d+ ", line)]
        if not rows:
            raise Failed(f"{program} printed no table:\n{text[-1000:]}")
        return [float(cell) for cell in rows[-1]]

    def gigabytes(self, program, *options):
        return self.perftest(program, *options)[3] * MIB / 1e9  # what it calls MB is 2^20 octets

    def messages(self, program, *options):
        return self.perftest(program, *options)[4]  # millions per second

    def microseconds(self, program, *options):
        return self.perftest(program, *options)[4]  # typical, one way

    def tcp(self):
        self.port += 1
        port = self.port
        text = self.run(["iperf3", "-s", "-1", "-p", str(port)],
                        ["iperf3", "-c", self.network.server.ipv4, "-p", str(port), "-l", "128K",
                         "-t", "2", "--json"], lambda: self.holds("tcp", port))
        return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9

    def sockperf(self, kind, pattern, *options):
        self.port += 1
        port = self.port
        server = ["sockperf", "sr", "-i", self.network.server.ipv4, "-p", str(port), "--nonblocked",
                  "--timeout", "0"]
        client = ["sockperf", kind, "-i", self.network.server.ipv4, "-p", str(port), "-m", "64",
                  "-t", "2", *options]
        text = self.run(server, client, lambda: self.holds("udp", port))
        found = re.search(pattern, text)
        if not found:
            raise Failed(f"sockperf printed no result:\n{text[-1000:]}")
        return float(found.group(1))

    def udp_microseconds(self):
        return self.sockperf("pp", r"percentile 50\.000 = +([\d.]+)", "--nonblocked", "--timeout", "0")

    def udp_messages(self):
        """Millions of datagrams that a sender hands over in a second, lost ones included."""
        return self.sockperf("tp", r"Message Rate is (\d+) \[msg/sec\]") / 1e6


def lines_of(bench, mtu):
    """What is measured: label, unit, how, and what stands beside it."""
    m = "4096" if mtu > 4200 else "1024"
    return [
        ("ib_write_bw, 1 MiB", "GB/s",
         lambda: bench.gigabytes("ib_write_bw", "-s", str(MIB), "-m", m, "-n", "3000"), "tcp"),
        ("ib_send_bw, 64 KiB", "GB/s",
         lambda: bench.gigabytes("ib_send_bw", "-s", "65536", "-m", m, "-n", "40000"), "tcp"),
        ("ib_send_lat, 8 octets", "us",
         lambda: bench.microseconds("ib_send_lat", "-s", "8", "-n", "50000"), "udp_lat"),
        ("ib_write_lat, 8 octets", "us",
         lambda: bench.microseconds("ib_write_lat", "-s", "8", "-n", "50000"), "udp_lat"),
        ("ib_write_bw, 64 octets, lists of 64", "M/s",
         lambda: bench.messages("ib_write_bw", "-s", "64", "-l", "64", "-t", "512", "-n", "2000000"),
         "udp_rate"),
    ]


BESIDE = {"tcp": ("iperf3, TCP, one stream", Bench.tcp),
          "udp_lat": ("sockperf, UDP, spinning", Bench.udp_microseconds),
          "udp_rate": ("sockperf, UDP, datagrams", Bench.udp_messages)}


def measure(network, mtu, rounds):
    bench = Bench(network)
    lines = lines_of(bench, mtu)
    ours = {line[0]: [] for line in lines}
    beside = {name: [] for name in BESIDE}
    for _ in range(rounds):
        for label, _, run, _ in lines:
            ours[label].append(run())
        for name, (_, run) in BESIDE.items():
            beside[name].append(run(bench))
    rows = []
    for label, unit, _, name in lines:
        here, there = statistics.median(ours[label]), statistics.median(beside[name])
        rows.append({"mtu": mtu, "what": label, "ours": here, "beside": BESIDE[name][0],
                     "theirs": there, "unit": unit, "ratio": here / there})
    return rows


def show(rows):
    print(f"{'MTU':>5}  {'what':36} {'ours':>12}  {'beside it':28} {'':>10}  ratio")
    for row in rows:
        print(f"{row['mtu']:>5}  {row['what']:36} {row['ours']:7.2f} {row['unit']:4}  "
              f"{row['beside']:28} {row['theirs']:5.2f} {row['unit']:4}  {row['ratio']:.2f}x")


def why_not():
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if (os.cpu_count() or 1) < 2:
        return "it takes two cores, one for each end"
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    return f"not installed: {' '.join(missing)} (scripts/setup.sh bench)" if missing else ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", action="store_true", help="for machines: an array of rows")
    given = options.parse_args()
    if reason := why_not():
        print(f"SKIPPED: {reason}")
        return SKIPPED
    installation = Installation(given.build)
    rows = []
    try:
        for mtu in (9000, 1500):
            network = Network("two", mtu, installation.command)
            try:
                rows += measure(network, mtu, max(given.rounds, 1))
            finally:
                network.remove()
    except Failed as problem:
        print(f"wire.py: {problem}", file=sys.stderr)
        return 1
    finally:
        installation.remove()
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"Two hosts, medians of {given.rounds} rounds; ratio: ours to what is beside it, so for\n"
              "GB/s and M/s more is better, for us (half a round trip) less is\n")
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
