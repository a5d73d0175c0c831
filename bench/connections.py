#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast are connections made between two processes of one host, beside TCP?

Usage: connections.py --build build/release [--rounds 5] [--count 1000] [--json]

Unmodified cmtime as nobody, and a program that does the same with TCP: all connections go through one
step, then all through the next. Server on core 0, client on core 1, both in one network namespace; the
two take turns, and medians are shown. Making namespaces needs root. Exit status: 0, 1 when something
failed, 77 when it could not be tried.
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
from hosts import NOBODY, Installation, Network, Process  # noqa: E402

SKIPPED = 77
LIMIT = 30  # seconds for any one program
STEPS = ("connect", "all")  # what is compared: that step, and the whole life of a connection


class Failed(Exception):
    pass


class Bench:
    """Runs both ends of one measurement: microseconds per connection, by step."""

    def __init__(self, network, peer, count):
        self.network, self.peer, self.count = network, peer, count
        self.port = 19000

    def _words(self, core, program):
        return (["ip", "netns", "exec", self.network.server.name, "timeout", "-s", "KILL", str(LIMIT),
                 "nice", "-n", "-20", "taskset", "-c", str(core)] + NOBODY + program)

    def _run(self, server_program, client_program):
        server = Process(self._words(0, server_program))
        try:
            if not server.await_listening(self.port, time.monotonic() + LIMIT):
                raise Failed(f"{server_program} never listened:\n{server.output()[-1000:]}")
            client = subprocess.run(self._words(1, client_program), capture_output=True, text=True)
            if client.returncode != 0:
                raise Failed(f"{client_program}: status {client.returncode}\n"
                             + (client.stdout + client.stderr)[-1000:])
            return client.stdout
        finally:
            server.end()

    def cmtime(self):
        self.port += 1
        host = self.network.server
        words = [host.command, "run", "--devices", "e0", "cmtime", "-p", str(self.port),
                 "-c", str(self.count)]
        text = self._run(words + ["-b", host.ipv4], words + ["-s", host.ipv4])
        rows = dict(re.findall(r"^([a-z ]+?) *: .* ([\d.]+)$", text, re.M))
        if "connect" not in rows:
            raise Failed(f"cmtime printed no table:\n{text[-1000:]}")
        return {"connect": float(rows["connect"]), "all": sum(float(each) for each in rows.values())}

    def tcp(self):
        self.port += 1
        text = self._run([self.peer, "serve", str(self.port), str(self.count)],
                         [self.peer, self.network.server.ipv4, str(self.port), str(self.count)])
        words = text.split()
        return {"connect": float(words[1]), "all": float(words[3])}


def measure(bench, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(bench.cmtime())
        theirs.append(bench.tcp())
    rows = []
    for step in STEPS:
        here = statistics.median(each[step] for each in ours)
        there = statistics.median(each[step] for each in theirs)
        rows.append({"step": step, "connections": bench.count, "ours_us": here, "tcp_us": there,
                     "ours_per_second": 1e6 / here, "tcp_per_second": 1e6 / there,
                     "times_slower": here / there})
    return rows


def show(rows):
    print(f"{'step':28} {'cmtime':>14} {'TCP':>14}  ratio")
    for row in rows:
        label = {"connect": "connect and accept", "all": "from first step to last"}[row["step"]]
        print(f"{label:28} {row['ours_per_second']:>12,.0f}/s {row['tcp_per_second']:>12,.0f}/s  "
              f"1 : {row['times_slower']:.1f}")


def why_not():
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if (os.cpu_count() or 1) < 2:
        return "it takes two cores, one for each end"
    missing = [name for name in ("cmtime", "taskset", "ip") if not shutil.which(name)]
    return f"not installed: {' '.join(missing)} (scripts/setup.sh)" if missing else ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/, lib/ and bench/")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--count", type=int, default=1000, help="connections at a time")
    options.add_argument("--json", action="store_true", help="for machines: an array of rows")
    given = options.parse_args()
    if reason := why_not():
        print(f"SKIPPED: {reason}")
        return SKIPPED
    installation = Installation(given.build)
    try:
        peer = os.path.join(installation.folder, "tcp_connections")
        shutil.copy(os.path.join(given.build, "bench/peers/tcp_connections"), peer)
        network = Network("one", 1500, installation.command)
        try:
            rows = measure(Bench(network, peer, given.count), max(given.rounds, 1))
        finally:
            network.remove()
    except Failed as problem:
        print(f"connections.py: {problem}", file=sys.stderr)
        return 1
    finally:
        installation.remove()
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"One host, {given.count} connections at a time, medians of {given.rounds} rounds\n")
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
