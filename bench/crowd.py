#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How much do many pairs of programs that spin get done on two cores, beside programs that sleep?

Usage: crowd.py --build build/release [--rounds 3] [--quick] [--json] [--save FILE]

All pairs run at the same time, as nobody, on cores 0 and 1, none pinned to one of them. The number is the
round trips of all pairs together in a second. The programs of rdma-core and perftest poll or spin on memory;
sockperf's TCP ping-pong sleeps in the kernel while it waits. The same is asked of threads of two processes,
and of ranks of Open MPI, beside Open MPI's own shared memory. Then: how late do messages of one pair come, and
what do idle processes take? Making namespaces needs root. Exit status: 0, 1 when something failed, 77 when it
could not be tried.
"""
import contextlib
import os
import re
import shutil
import sys
import time

from comparison import Absent, Failed, Measurement, Peer, at_least, at_most
from stage import LIMIT, URGENT, Stage, main
from hosts import NOBODY, Network, Process

PROGRAMS = ("ibv_rc_pingpong", "ib_write_lat", "sockperf")
PAIRS = (1, 2, 4, 8, 16)
MANY = 8  # ranks, threads, idle processes
OCTETS = 8192
SECONDS = 3  # of one measurement
TRIPS = 100_000  # of one pair, so that the 99.99th percentile is of ten messages
ON_TWO_CORES = ["taskset", "-c", "0,1"]


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
        return [*ON_TWO_CORES, "ip", "netns", "exec", self.stage.network.server.name,
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


    def beside_idle_ones(self, path, trips):
        """One pair that polls, beside programs that wait for a client with everything open."""
        with self.idle(path):
            return self.pingpong(1, path, trips)

    def idle_time(self, path):
        """Milliseconds of a processor that idle programs take in a second, together."""
        with self.idle(path) as processes:
            before = processor_seconds(processes)
            time.sleep(SECONDS)
            return (processor_seconds(processes) - before) * 1e3 / SECONDS

    @contextlib.contextmanager
    def idle(self, path):
        started = []
        try:
            ports = [self.stage.next_port() for _ in range(MANY)]
            servers = [self._start(started, self._with(
                self._verbs(path, "ibv_rc_pingpong", port, is_client=False), "-g", self.stage.gid))
                for port in ports]
            deadline = time.monotonic() + LIMIT
            for server, port in zip(servers, ports):
                if not server.await_listening(port, deadline):
                    raise Failed(f"an idle server never listened:\n{server.output()[-1000:]}")
            yield servers
        finally:
            for process in started:
                process.end()

    def threads(self, path):
        """Threads of two processes, with a completion queue each."""
        return self.stage.peer("threads", self.stage.gid, MANY, OCTETS, SECONDS, launcher=[
            "env", f"VERBATIM_PATH={path}", *self.stage.verbs(*ON_TWO_CORES)])

    def ranks(self, *transport):
        """All-to-all exchanges of Open MPI in a second."""
        if not shutil.which("mpirun"):
            raise Absent("Open MPI is not installed (scripts/setup.sh bench)")
        return self.stage.peer("mpi_exchange", OCTETS, SECONDS, launcher=[
            "env", "HOME=/tmp", "UCX_LOG_LEVEL=error", *transport, *ON_TWO_CORES,
            "mpirun", "-np", str(MANY), "--bind-to", "none", "--oversubscribe", "--mca", "osc", "^ucx"])


def processor_seconds(processes):
    ticks = 0
    for process in processes:
        with open(f"/proc/{process.child.pid}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Latency:
    """The times of all messages of one run, one way, in microseconds."""

    def __init__(self, run):
        self.run, self.times = run, []

    def take(self, share):
        self.times = sorted(float(cell) for cell in re.findall(r"^\d+, ([\d.e+-]+)$", self.run(), re.M))
        return self.last(share)

    def last(self, share):
        """Of the run that take() has made."""
        if not self.times:
            raise Failed("perftest printed no times")
        return self.times[min(int(len(self.times) * share), len(self.times) - 1)]

    def measurement(self, what, goal=None, goal_of_ratio=None):
        return Measurement(f"{what}, 99.9th percentile", "us", lambda: self.take(0.999), (
            Peer(f"the median of {what}", lambda: self.last(0.5), goal_of_ratio),
            Peer(f"the 99.99th percentile of {what}", lambda: self.last(0.9999)),
            Peer(f"the maximum of {what}", lambda: self.last(1))), goal)


def of_latency(stage):
    for program in ("ib_send_lat", "ib_write_lat"):
        def pinned(program=program):
            return stage.perftest(program, "-s", 8, "-n", TRIPS, "-H", path="packet", urgency=URGENT)

        def free(program=program):
            if (os.cpu_count() or 1) < 4:
                raise Absent("a pair has cores to spare where there are four")
            return stage.perftest(program, "-s", 8, "-n", TRIPS, "-H", path="packet", pinned=False)
        yield Latency(pinned).measurement(f"packet: {program}, each process on one core", at_most(50))
        yield Latency(free).measurement(f"packet: {program}, cores to spare", None, at_most(10))


def of_threads_and_ranks(crowd, installation):
    tcp = Peer(f"sockperf, TCP, {named(MANY)}", lambda: crowd.tcp(MANY), at_least(0.5))
    shared = Peer("Open MPI's shared memory", lambda: crowd.ranks(
        "UCX_TLS=shm,self", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader"))
    for path in ("packet", "direct"):
        yield Measurement(f"{path}: {MANY} threads of two processes", "/s",
                          lambda path=path: crowd.threads(path), (tcp,))
        yield Measurement(f"{path}: MPI_Alltoall, {MANY} ranks", " /s", lambda path=path: crowd.ranks(
            f"VERBATIM_PATH={path if path == 'packet' else 'auto'}", "UCX_TLS=rc_verbs,ud_verbs,self",
            "UCX_NET_DEVICES=vb0:1", "OMPI_MCA_pml=ucx", installation.command, "run", "--devices", "e0"),
            (shared,))


def of_idle_programs(crowd, trips):
    for path in ("packet", "direct"):
        yield Measurement(f"{path}: ibv_rc_pingpong, one pair beside {MANY} idle programs", "/s",
                          lambda path=path: crowd.beside_idle_ones(path, trips),
                          (Peer(f"{path}: the same pair alone",
                                lambda path=path: crowd.pingpong(1, path, trips), at_least(0.9)),))
    yield Measurement(f"processor time of {MANY} idle programs", "ms/s", lambda: crowd.idle_time("auto"),
                      (), at_most(1))


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
        stage = Stage(installation, network)
        crowd = Crowd(stage)
        yield [measurement for pairs in PAIRS for measurement in of_pairs(crowd, pairs, 40_000)]
        yield [*of_threads_and_ranks(crowd, installation), *of_idle_programs(crowd, 40_000)]
        yield [*of_latency(stage)]
    finally:
        network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, PROGRAMS, 3, measurements,
                  f"Pairs of programs on two cores, {OCTETS} octets; round trips of all pairs in a second."))
