#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast is the adapter between two hosts, compared with the kernel's TCP and UDP on the same wire?

Usage: wire.py --build build/release [--rounds 3] [--quick] [--json] [--save FILE]

Two network namespaces joined by a veth, one end of everything on core 0, the other on core 1;
unmodified perftest as nobody. Making namespaces needs root. Exit status: 0, 1 when something failed,
77 when it could not be tried.
"""
import json
import re
import sys

from comparison import Failed, Measurement, Peer
from stage import MIB, REAL_TIME, Stage, main
from hosts import Network

PROGRAMS = ("ib_write_bw", "ib_send_bw", "ib_send_lat", "ib_write_lat", "iperf3", "sockperf", "chrt")


def tcp(stage):
    port = stage.next_port()
    text = stage.pair(["iperf3", "-s", "-1", "-p", str(port)],
                      ["iperf3", "-c", stage.network.server.ipv4, "-p", str(port), "-l", "128K",
                       "-t", "2", "--json"], port, REAL_TIME)
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9


def sockperf(stage, kind, pattern, *options):
    port, address = stage.next_port(), stage.network.server.ipv4
    text = stage.pair(["sockperf", "sr", "-i", address, "-p", str(port), "--nonblocked",
                       "--timeout", "0"],
                      ["sockperf", kind, "-i", address, "-p", str(port), "-m", "64", "-t", "2",
                       *options], port, REAL_TIME, protocol="udp")
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"sockperf printed no result:\n{text[-1000:]}")
    return float(found.group(1))


def udp_microseconds(stage):
    return sockperf(stage, "pp", r"percentile 50\.000 = +([\d.]+)", "--nonblocked", "--timeout", "0")


def udp_messages(stage):
    """Millions of datagrams that a sender hands over in a second, lost ones included."""
    return sockperf(stage, "tp", r"Message Rate is (\d+) \[msg/sec\]") / 1e6


def at_mtu(stage, mtu):
    """What is measured on one network."""
    m = "4096" if mtu > 4200 else "1024"
    stream = (Peer("iperf3, TCP, one stream", lambda: tcp(stage)),)
    round_trip = (Peer("sockperf, UDP, both ends spinning", lambda: udp_microseconds(stage)),)
    datagrams = (Peer("sockperf, UDP, single datagrams", lambda: udp_messages(stage)),)

    def bulk(program, octets, count):
        return lambda: stage.gigabytes(program, "-s", octets, "-m", m, "-n", count,
                                       urgency=REAL_TIME)

    return [
        Measurement(f"MTU {mtu}: ib_write_bw, 1 MiB", "GB/s", bulk("ib_write_bw", MIB, 3000), stream),
        Measurement(f"MTU {mtu}: ib_send_bw, 64 KiB", "GB/s", bulk("ib_send_bw", 65536, 40000),
                    stream),
        Measurement(f"MTU {mtu}: ib_send_lat, 8 octets", "us",
                    lambda: stage.microseconds("ib_send_lat", "-s", 8, "-n", 50000,
                                               urgency=REAL_TIME), round_trip),
        # The target spins on its memory and never calls the library.
        Measurement(f"MTU {mtu}: ib_write_lat, 8 octets", "us",
                    lambda: stage.microseconds("ib_write_lat", "-s", 8, "-n", 50000), round_trip),
        Measurement(f"MTU {mtu}: ib_write_bw, 64 octets, lists of 64", "M/s",
                    lambda: stage.messages("ib_write_bw", "-s", 64, "-l", 64, "-t", 512,
                                           "-n", 2000000, urgency=REAL_TIME), datagrams),
    ]


def measurements(installation):
    for mtu in (9000, 1500):
        network = Network("two", mtu, installation.command)
        try:
            yield at_mtu(Stage(installation, network), mtu)
        finally:
            network.remove()


if __name__ == "__main__":
    sys.exit(main(__doc__, PROGRAMS, 3, measurements,
                  "Two hosts; a small message's time is half a round trip."))
