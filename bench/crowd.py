#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How much do many pairs of programs that spin get done on two cores, beside programs that sleep?

Usage: crowd.py --build build/release [--rounds 3] [--quick] [--json] [--save FILE]

All pairs run at the same time, as nobody, on cores 0 and 1, none pinned to one of them. The number is the
round trips of all pairs together in a second. The programs of rdma-core and perftest poll or spin on memory;
sockperf's TCP ping-pong sleeps in the kernel while it waits. Making namespaces needs root. Exit status: 0,
1 when something failed, 77 when it could not be tried.
"""
import re
import sys
import time

from comparison import Failed, Measurement, Peer, at_least
from stage import LIMIT, Stage, main
from hosts import NOBODY, Network, Process

PROGRAMS = ("ibv_rc_pingpong", "ib_write_lat", "sockperf")
PAIRS = (1, 2, 4, 8, 16)
OCTETS = 8192
SECONDS = 3  # of one measurement


class Crowd:
    """Starts pairs of programs, all servers first, then all clients at once."""

    def __init__(self, stage):
        self.stage = stage

    def run(self, pairs, words, protocol="tcp"):
        """What the clients print. `words(port)` is the command line of a server, and of a client without
        the server's address."""
        ports = [self.stage.next_port() for _ in range(pairs)]
        started = []
        try:
            servers = [self._start(started, words(port, is_client=False)) for port in ports]
            deadline = time.monotonic() + LIMIT
            for server, port in zip(servers, ports):
                if not server.await_listening(port, deadline):
                    raise Failed(f"a server never listened:\n{server.output()[-1000:]}")
            clients = [self._start(started, words(port, is_client=True)) for port in ports]
            for client in clients:
                if client.wait(deadline) != 0:
                    raise Failed(f"a client of {pairs} failed or took too long:\n{client.output()[-1000:]}")
            return [client.output() for client in clients]
        finally:
            for process in started:
                process.end()

    def _start(self, started, words):
        started.append(Process(words))
        return started[-1]

    def _words(self, program):
        return ["taskset", "-c", "0,1", "ip", "netns", "exec", self.stage.network.server.name,
                *NOBODY, *program]

    def _verbs(self, path, program, port, is_client):
        address = [self.stage.network.server.ipv4] if is_client else []
        return self._words(["env", f"VERBATIM_PATH={path}"]
                           + self.stage.verbs(program, "-d", "vb0", "-p", port, *address))

    def pingpong(self, pairs, path, trips):
        """Every pair makes the same number of round trips; the slowest one ends the measurement."""
        texts = self.run(pairs, lambda port, is_client: self._with(
            self._verbs(path, "ibv_rc_pingpong", port, is_client),
            "-g", self.stage.gid, "-s", OCTETS, "-n", trips))
        seconds = [float(found.group(1)) for text in texts
                   for found in re.finditer(r"iters in ([\d.]+) seconds", text)]
        if len(seconds) != pairs:
            raise Failed(f"ibv_rc_pingpong printed no time:\n{texts[-1][-1000:]}")
        return pairs * trips / max(seconds)

    @staticmethod
    def _with(words, *options):
        """Options before the server's address and after the program are the same to getopt(3)."""
        return words + [str(option) for option in options]

    def write_latency(self, pairs, path):
        """ib_write_lat: both ends spin on memory, and call the library once or twice in a round trip."""
        texts = self.run(pairs, lambda port, is_client: self._with(
            self._verbs(path, "ib_write_lat", port, is_client),
            "-x", self.stage.gid, "-F", "-s", OCTETS, "-D", SECONDS, "-f", 0))
        rates = [float(row.split()[3]) for text in texts
                 for row in text.splitlines() if re.match(rf"^ *{OCTETS} +\d+ ", row)]
        if len(rates) != pairs:
            raise Failed(f"ib_write_lat printed no table:\n{texts[-1][-1000:]}")
        return sum(rates) / 2  # it counts one way

    def tcp(self, pairs):
        def words(port, is_client):
            address = ["-i", self.stage.network.server.ipv4, "-p", str(port), "--tcp"]
            if not is_client:
                return self._words(["sockperf", "sr", *address])
            return self._words(["sockperf", "pp", *address, "-m", str(OCTETS), "-t", str(SECONDS)])
        texts = self.run(pairs, words)
        rates = [int(found.group(2)) / float(found.group(1)) for text in texts for found in re.finditer(
            r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d+)", text)]
        if len(rates) != pairs:
            raise Failed(f"sockperf printed no result:\n{texts[-1][-1000:]}")
        return sum(rates)


def of_pairs(crowd, pairs, trips):
    peer = (Peer(f"sockperf, TCP, {named(pairs)}", lambda: crowd.tcp(pairs),
                 at_least(0.5) if pairs > 1 else None),)
    for path in ("packet", "direct"):
        yield Measurement(f"{path}: ibv_rc_pingpong, {named(pairs)}", "/s",
                          lambda path=path: crowd.pingpong(pairs, path, trips // pairs), peer)
        yield Measurement(f"{path}: ib_write_lat, {named(pairs)}", "/s",
                          lambda path=path: crowd.write_latency(pairs, path), peer)


def named(pairs):
    return f"{pairs} pairs" if pairs > 1 else "one pair"


def measurements(installation):
    network = Network("one", 9000, installation.command)
    try:
        crowd = Crowd(Stage(installation, network))
        yield [measurement for pairs in PAIRS for measurement in of_pairs(crowd, pairs, 40_000)]
    finally:
        network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, PROGRAMS, 3, measurements,
                  f"Pairs of programs on two cores, {OCTETS} octets; round trips of all pairs in a second."))
