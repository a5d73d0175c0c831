#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Links with rates and lanes: OpenSM writes the tables of lanes and arbitration, perftest of the distribution sends
on two service levels over one link, and each gets the share that the tables say. Needs root, to become an ordinary
user.

Usage: fabric_lanes_test.py --build build/release [Arbitration.test_... ]
"""
import os
import shutil
import sys
import time
import unittest

import fabric_data_test
import hosts
from fabrics import TREE, Fabric

# Service level = lane. A packet of 4 KiB has 65 blocks of 64 octets.
LANES = "qos TRUE\nqos_max_vls 8\nqos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7\n"
BY_WEIGHT = LANES + "qos_high_limit 0\nqos_vlarb_high 7:0\nqos_vlarb_low 0:64,1:192\n"
# After three times 4,096 octets of the high table one packet of the low one leaves.
BY_LIMIT = LANES + "qos_high_limit 3\nqos_vlarb_high 1:192\nqos_vlarb_low 0:64\n"
# The buffers of a program last for a quarter of a second then, so it need not run all the time.
SLOWDOWN = 256
UNDER_WAY = 100_000  # octets: more than management takes
LINK_OCTETS = 1e9 / SLOWDOWN  # a second: 4xSDR carries 8 Gb/s


class Lanes(fabric_data_test.Pairs, unittest.TestCase):
    """Two switches with one link between them; h0 sends to h2, and h1 to h3."""

    def subnet(self, tables=LANES):
        made = Fabric(fabric_data_test.INSTALLATION, TREE, ["--rate", "4xSDR", "--rates", f"1/{SLOWDOWN}"])
        self.addCleanup(made.end)
        made.await_up()
        made.tell("link", "down", "leaf0[4]")
        with open(os.path.join(made.folder, "opensm.conf"), "w", encoding="ascii") as file:
            file.write(tables)
        made.start_opensm("h1", "osm.log", "-Q", "-F", "opensm.conf")
        return made.await_active()

    def stream(self, made, client, server, level):
        """A timeout of four seconds: packets wait long on purpose. Four queue pairs have enough on the way for that."""
        return self.pair(made, ["ib_write_bw", "-D", "30", "-S", str(level), "-q", "4", "-u", "20"], server=server, client=client)

    @staticmethod
    def look(made, servers):
        counts = {port["node"]: port["counters"]["received_words"] * 4 for port in made.ports()}
        return time.monotonic(), [counts[server] for server in servers]

    def rates(self, made, servers, seconds=3.0):
        """Octets that arrive at each server in a second, once all streams are under way."""
        deadline = time.monotonic() + hosts.PATIENCE
        while min(self.look(made, servers)[1]) < UNDER_WAY:
            self.assertLess(time.monotonic(), deadline, "no packets come")
            time.sleep(0.05)
        start, before = self.look(made, servers)
        time.sleep(seconds)
        end, after = self.look(made, servers)
        return [(now - then) / (end - start) for then, now in zip(before, after)]

    def check_is_the_link(self, rate):
        """Never more than the link carries; less only when the programs get no processor for long."""
        self.assertLess(rate / LINK_OCTETS, 1.02)
        self.assertGreater(rate / LINK_OCTETS, 0.8)


class Arbitration(Lanes):
    def check_three_to_one(self, tables):
        made = self.subnet(tables)
        pairs = [self.stream(made, "h0", "h2", 0), self.stream(made, "h1", "h3", 1)]
        slow, fast = self.rates(made, ("h2", "h3"))
        self.assertAlmostEqual(fast / slow, 3.0, delta=0.3, msg=f"{slow:.3g} and {fast:.3g} octets a second")
        self.check_is_the_link(fast + slow)
        waits = made.run("h0", "perfquery").stdout
        self.assertRegex(waits, r"PortXmitWait:\.+[1-9]")
        self.assertIn("nothing was discarded", made.tell("show", "drops").stdout)
        for process in (process for pair in pairs for process in pair):
            process.end()

    def test_weights_of_one_table_share_a_link(self):
        self.check_three_to_one(BY_WEIGHT)

    def test_the_limit_of_the_high_table_shares_a_link(self):
        self.check_three_to_one(BY_LIMIT)


class Rates(Lanes):
    def test_one_stream_is_as_fast_as_its_links(self):
        made = self.subnet()
        pair = self.stream(made, "h0", "h2", 0)
        [rate] = self.rates(made, ("h2",))
        self.check_is_the_link(rate)
        for process in pair:
            process.end()

    def test_a_service_level_without_a_lane_does_not_pass(self):
        tables = "qos TRUE\nqos_max_vls 8\nqos_sl2vl 0,15,15,15,15,15,15,15,15,15,15,15,15,15,15,15\n"
        made = self.subnet(tables)
        self.passes(made, "ib_write_bw", "-n", "100", "-S", "0", server="h2", client="h0")
        listening, connecting = self.pair(made, ["ib_write_bw", "-n", "100", "-S", "1"], server="h2", client="h0")
        self.assertNotEqual(connecting.wait(time.monotonic() + hosts.PATIENCE), 0)
        self.assertIn("no lane for the service level", made.tell("show", "drops").stdout)
        listening.end()


def main():
    def use(installation):
        fabric_data_test.INSTALLATION = installation

    programs = ("opensm", "perfquery", "ib_write_bw")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
