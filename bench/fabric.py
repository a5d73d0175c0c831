#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast are programs on the nodes of a fabric, compared with the UDP path between two hosts?

Usage: fabric.py --build build/release [--rounds 3] [--quick] [--json] [--save FILE]

A fabric of two switches with two hosts each, which OpenSM has brought up: between two hosts of one switch, and
over both switches. Beside it two network namespaces joined by a veth, MTU 9000. Unmodified perftest as nobody, on
any core: the fabric's process needs one as well. Making namespaces needs root. Exit status: 0, 1 when something
failed, 77 when it could not be tried.
"""
import sys
import time

from comparison import Failed, Measurement, Peer
from stage import LIMIT, Stage, end_server, main
from fabrics import TREE, Fabric
from hosts import NOBODY, Network

PROGRAMS = ("ib_write_bw", "ib_send_lat", "ib_write_lat", "opensm", "ibstat")


class UnpinnedStage(Stage):
    """Two hosts whose programs run on any core."""

    def _words(self, host, program, urgency=None, core=None):
        return ["timeout", "-s", "KILL", str(LIMIT), "ip", "netns", "exec", host.name] + NOBODY + program


class FabricStage(Stage):
    """Two nodes of a fabric."""
    port = 18400

    def __init__(self, fabric, server, client):
        self.fabric, self.server, self.client = fabric, server, client

    def perftest(self, program, *options, urgency=None, path="auto"):
        FabricStage.port += 1
        words = [program, "-d", "vib0", "-p", str(self.port), "-F", *map(str, options)]
        serving = self.fabric.start(self.server, *words)
        try:
            if not serving.await_listening(self.port, time.monotonic() + LIMIT):
                raise Failed(f"{' '.join(words)} never listened:\n{serving.output()[-1000:]}")
            done = self.fabric.run(self.client, *words, "127.0.0.1")
        finally:
            end_server(serving)
        if done.returncode != 0:
            raise Failed(f"{' '.join(words)}: status {done.returncode}\n{(done.stdout + done.stderr)[-1000:]}")
        return done.stdout


def compare(where, stage, beside):
    """What is measured between two nodes."""
    def peer(measure):
        return (Peer("the UDP path between two hosts, MTU 9000", measure),)

    def bulk(of):
        return lambda: of.gigabytes("ib_write_bw", "-s", 65536, "-n", 20000)

    def time_of(program, of):
        return lambda: of.microseconds(program, "-s", 8, "-n", 5000)

    return [
        Measurement(f"{where}: ib_write_bw, 64 KiB", "GB/s", bulk(stage), peer(bulk(beside))),
        *(Measurement(f"{where}: {program}, 8 octets", "us", time_of(program, stage), peer(time_of(program, beside)))
          for program in ("ib_send_lat", "ib_write_lat"))]


def measurements(installation):
    network = Network("two", 9000, installation.command)
    fabric = Fabric(installation, TREE)
    try:
        fabric.await_up().start_opensm()
        fabric.await_active()
        beside = UnpinnedStage(installation, network)
        yield [*compare("one switch", FabricStage(fabric, "h1", "h0"), beside),
               *compare("two switches", FabricStage(fabric, "h3", "h0"), beside)]
    finally:
        fabric.end()
        network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, PROGRAMS, 3, measurements,
                  "Nodes of a fabric; a small message's time is half a round trip."))
