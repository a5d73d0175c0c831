#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast is the adapter between two processes of one host, compared with what else a program could use?

Usage: host.py --build build/release [--rounds 5] [--quick] [--json] [--save FILE]

Unmodified perftest as nobody, client on core 1, server on core 0, on the direct path or not at all.
Beside it UCX, Open MPI and libfabric on the system's own libraries and through shared memory, the
kernel's sockets, and memcpy. Making namespaces needs root. Exit status: 0, 1 when something failed, 77
when it could not be tried.
"""
import os
import shutil
import sys

from comparison import (Absent, Failed, Measurement, Peer, above, at_least, at_most, below)
from stage import MIB, Stage, main
from hosts import Network

PROGRAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_lat", "ib_write_lat", "ib_read_lat",
            "ib_atomic_lat")
TRIPS = 200_000  # of one measurement of latency
SMALL = 8        # octets
SIZES = ((65536, "64 KiB", 100_000), (MIB, "1 MiB", 5_000))  # octets, in words, messages of ours
QUEUE_PAIRS = 1000

# Shared memory, and no network, also not Verbatim.
UCX = ["env", "UCX_TLS=shm,self", "UCX_LOG_LEVEL=error"]
OPEN_MPI = [*UCX, "HOME=/tmp", "mpirun", "-np", "2", "--bind-to", "none", "--oversubscribe",
            "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "osc", "^ucx"]


class Peers:
    """What Verbatim is compared with: each method makes a Peer."""

    def __init__(self, stage):
        self.stage = stage

    def _ours(self, name, label, *arguments, goal=None, launcher=()):
        """A program from this folder."""
        return Peer(label, lambda: self.stage.peer(name, *arguments, launcher=launcher), goal)

    def ucx(self, test, octets, label, column, count, *options, goal=None):
        """A column of ucx_perftest's last line."""
        return Peer(label, lambda: self._ucx_perftest(test, octets, count, options)[column], goal)

    def _ucx_perftest(self, test, octets, count, options):
        if not shutil.which("ucx_perftest"):
            raise Absent("ucx_perftest is not installed (scripts/setup.sh bench)")
        port = self.stage.next_port()
        words = [*UCX, "ucx_perftest", "-t", test, "-s", str(octets), "-n", str(count), "-f", "-v",
                 "-p", str(port), *options]
        text = self.stage.pair(words, words + ["127.0.0.1"], port)
        rows = [line.split(",") for line in text.splitlines() if line[:1].isdigit()]
        if not rows:
            raise Failed(f"ucx_perftest printed no result:\n{text[-1000:]}")
        _, typical, _, _, _, megabytes, _, messages = map(float, rows[-1])
        return {"us": typical, "GB/s": megabytes * MIB / 1e9, "M/s": messages / 1e6,
                "us each": 1e6 / messages}

    def ucx_put(self, kind, octets, count, goal=None):
        return self._ours("ucx_put", f"UCX put, malloc memory, {size(octets)}", kind, octets, count,
                          goal=goal, launcher=UCX)

    def open_mpi(self, kind, octets, count, goal=None):
        if not shutil.which("mpirun"):
            return Peer("Open MPI send/receive", absent("mpirun"), goal)
        return self._ours("mpi_messages", f"Open MPI send/receive, {size(octets)}", kind, octets,
                          count, goal=goal, launcher=OPEN_MPI)

    def libfabric(self, kind, octets, count, goal=None):
        return self._ours("fabric_messages", f"libfabric shm, {size(octets)}", kind, octets, count,
                          goal=goal)

    def memcpy(self, direction, octets, count, goal=None):
        words = {"write": "memcpy into shared pages", "read": "memcpy out of shared pages"}
        return self._ours("shared_pages", f"{words[direction]}, {size(octets)}", direction, octets,
                          count, goal=goal)

    def store(self):
        return self._ours("shared_pages", "a store that the other core awaits", "latency", SMALL,
                          TRIPS)

    def sockets(self, kind, octets, tcp_count, unix_count):
        return (self._ours("sockets", f"TCP on loopback, {size(octets)}", "tcp", kind, octets,
                           tcp_count),
                self._ours("sockets", f"UNIX socket, {size(octets)}", "unix", kind, octets,
                           unix_count))


def absent(program):
    def run():
        raise Absent(f"{program} is not installed (scripts/setup.sh bench)")
    return run


def size(octets):
    return next((words for number, words, _ in SIZES if number == octets), f"{octets} octets")


class Direct:
    """Programs of perftest on the direct path."""

    def __init__(self, stage):
        self.stage = stage

    def latency(self, program, *options):
        return lambda: self.stage.microseconds(program, "-n", TRIPS, *options, path="direct")

    def bandwidth(self, program, octets, count):
        return lambda: self.stage.gigabytes(program, "-s", octets, "-n", count, "--noPeak",
                                            path="direct")

    def rate(self, program, count, *options):
        return lambda: self.stage.messages(program, "-s", SMALL, "-n", count, "--noPeak", *options,
                                           path="direct")


def small_messages(direct, peers):
    sockets = peers.sockets("latency", SMALL, 50_000, 100_000)
    ucx_count = 1_000_000
    yield Measurement(
        "ib_write_lat, 8 octets", "us", direct.latency("ib_write_lat", "-s", SMALL),
        (peers.ucx("ucp_put_lat", SMALL, "UCX put, memory of its own, 8 octets", "us", ucx_count,
                   goal=at_most(1.15)),
         peers.ucx_put("latency", SMALL, TRIPS, goal=at_most(0.5)), peers.store(), *sockets))
    yield Measurement(
        "ib_send_lat, 8 octets", "us", direct.latency("ib_send_lat", "-s", SMALL),
        (peers.ucx("tag_lat", SMALL, "UCX tag, 8 octets", "us", ucx_count, goal=below(1)),
         peers.open_mpi("latency", SMALL, TRIPS, goal=below(1)),
         peers.libfabric("latency", SMALL, TRIPS), *sockets))
    yield Measurement(
        "ib_read_lat, 8 octets, there and back", "us", direct.latency("ib_read_lat", "-s", SMALL),
        (peers.ucx("ucp_get", SMALL, "UCX get, memory of its own, one at a time", "us each",
                   ucx_count, "-O", "1"), *sockets), below(0.3))
    yield Measurement(
        "ib_atomic_lat, 8 octets, there and back", "us", direct.latency("ib_atomic_lat"),
        (peers.ucx("ucp_fadd", SMALL, "UCX fetch and add, one at a time", "us each", ucx_count,
                   "-O", "1"), *sockets), below(0.3))


def bulk(direct, peers):
    for octets, words, count in SIZES:
        sockets = peers.sockets("bandwidth", octets, count // 5, count // 5)
        for program, direction in (("ib_write_bw", "write"), ("ib_read_bw", "read")):
            test = {"write": "ucp_put_bw", "read": "ucp_get"}[direction]
            yield Measurement(
                f"{program}, {words}", "GB/s", direct.bandwidth(program, octets, count),
                (peers.memcpy(direction, octets, count, goal=at_least(0.9)),
                 peers.ucx(test, octets, f"UCX {test[4:7]}, memory of its own, {words}", "GB/s",
                           count), *sockets))
        yield Measurement(
            f"ib_send_bw, {words}", "GB/s", direct.bandwidth("ib_send_bw", octets, count),
            (peers.open_mpi("bandwidth", octets, count // 4, goal=above(1)),
             peers.libfabric("bandwidth", octets, count // 4, goal=above(1)),
             peers.ucx("tag_bw", octets, f"UCX tag, {words}", "GB/s", count // 4), *sockets))


def rates(direct, peers):
    sockets = peers.sockets("rate", SMALL, 500_000, 500_000)
    yield Measurement(
        "ib_write_bw, 8 octets, lists of 16", "M/s",
        direct.rate("ib_write_bw", 20_000_000, "-l", 16, "-t", 128),
        (peers.ucx("ucp_put_bw", SMALL, "UCX put, memory of its own, 8 octets", "M/s", 20_000_000),
         peers.ucx_put("rate", SMALL, 2_000_000), *sockets), at_least(20))
    yield Measurement(
        "ib_send_bw, 8 octets", "M/s", direct.rate("ib_send_bw", 5_000_000),
        (peers.ucx("tag_bw", SMALL, "UCX tag, 8 octets", "M/s", 5_000_000, goal=above(1)),
         peers.open_mpi("rate", SMALL, 5_000_000, goal=above(1)),
         peers.libfabric("rate", SMALL, 1_000_000), *sockets))


def neighbours(stage, direct):
    """Queue pairs must not make each other slower."""
    # perftest counts a hundred messages for each completion, also for the last one. With several queue
    # pairs and a number of messages that is no multiple of a hundred it counts wrong and never ends.
    for program in ("ib_write_bw", "ib_send_bw"):
        def rate(pairs, count, program=program):
            return direct.rate(program, count, "-q", pairs)
        yield Measurement(
            f"{program}, 8 octets, {QUEUE_PAIRS:,} queue pairs", "M/s", rate(QUEUE_PAIRS, 3200),
            (Peer(f"{program}, 8 octets, one queue pair", rate(1, 3_200_000),
                  at_least(round(1 / 1.2, 2))),))
    path = os.path.join(stage.installation.folder, "bin/two_paths")
    for kind in ("write", "send"):
        def half_trip(pairs, kind=kind):
            return lambda: float(stage.alone(stage.verbs(path, stage.gid, pairs, kind, SMALL, TRIPS)))
        yield Measurement(
            f"{kind.upper()}, 8 octets, a packet queue pair beside it", "us", half_trip("both"),
            (Peer(f"{kind.upper()}, 8 octets, alone", half_trip("direct"), at_most(1.2)),))


def registrations(stage):
    """4 KiB, where the domain has a peer on this host: the same whatever else the process has."""
    path = os.path.join(stage.installation.folder, "bin/registrations")

    def cost(page, scene, count):
        return lambda: float(stage.alone(stage.verbs(path, stage.gid, page, scene, count)))
    plain = Peer("in a process that has little else", cost("again", "plain", 20_000))
    for scene, words in (("descriptors", "10,000 descriptors"), ("mappings", "32,000 mappings"),
                         ("regions", "10,000 regions")):
        yield Measurement(f"4 KiB registered and deregistered again, {words}", "us",
                          cost("again", scene, 20_000), (plain,), at_most(20))
    yield Measurement("4 KiB registered for the first time, moved, and deregistered", "us",
                      cost("first", "plain", 2_000), (plain,))


def forks(stage):
    """The first fork of a process whose memory has moved: later ones find private pages."""
    path = os.path.join(stage.installation.folder, "bin/forks")

    def cost(memory):
        return lambda: float(stage.alone(stage.verbs(path, stage.gid, memory, 4)))
    yield Measurement("fork with 4 GiB that have moved, until the child has ended", "ms",
                      cost("moved"),
                      (Peer("fork with 4 GiB, without an adapter", cost("plain"), at_most(2)),))


def measurements(installation):
    network = Network("one", 1500, installation.command)
    try:
        stage = Stage(installation, network)
        direct, peers = Direct(stage), Peers(stage)
        yield [*small_messages(direct, peers), *bulk(direct, peers), *rates(direct, peers),
               *neighbours(stage, direct), *registrations(stage), *forks(stage)]
    finally:
        network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, PROGRAMS, 5, measurements,
                  "One host, two processes; a small message's time is one way unless said."))
