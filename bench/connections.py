#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast are connections made between two processes of one host, compared with TCP?

Usage: connections.py --build build/release [--rounds 5] [--quick] [--json] [--save FILE]

Unmodified cmtime as nobody, and a program that does the same with TCP: all connections go through one
step, then all through the next. Server on core 0, client on core 1, both in one network namespace.
Making namespaces needs root. Exit status: 0, 1 when something failed, 77 when it could not be tried.
"""
import os
import re
import sys

from comparison import Failed, Measurement, Peer
from stage import Stage, main
from hosts import Network

COUNT = 1000  # connections at a time


def cmtime(stage, step):
    """Connections per second that go through one step of cmtime, or through all of them."""
    port, address = stage.next_port(), stage.network.server.ipv4
    words = stage.verbs("cmtime", "-p", port, "-c", COUNT)
    text = stage.pair(words + ["-b", address], words + ["-s", address], port)
    rows = dict(re.findall(r"^([a-z ]+?) *: .* ([\d.]+)$", text, re.M))
    if "connect" not in rows:
        raise Failed(f"cmtime printed no table:\n{text[-1000:]}")
    rows["all"] = sum(map(float, rows.values()))
    return 1e6 / float(rows[step])


def tcp(stage, step):
    port, address = stage.next_port(), stage.network.server.ipv4
    program = os.path.join(stage.installation.folder, "bin/tcp_connections")
    text = stage.pair([program, "serve", str(port), str(COUNT)],
                      [program, address, str(port), str(COUNT)], port)
    words = text.split()
    return 1e6 / float(words[words.index(step) + 1])


def measurements(installation):
    network = Network("one", 1500, installation.command)
    try:
        stage = Stage(installation, network)
        yield [Measurement(f"cmtime, {label}", "/s", lambda step=step: cmtime(stage, step),
                           (Peer(f"TCP, {label}", lambda step=step: tcp(stage, step)),))
               for step, label in (("connect", "connect and accept"),
                                   ("all", "from first step to last"))]
    finally:
        network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, ("cmtime",), 5, measurements,
                  f"Connections of one host, {COUNT:,} at a time."))
