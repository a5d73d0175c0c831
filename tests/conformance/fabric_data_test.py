#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that use verbs on the nodes of a fabric, as an ordinary user: ibverbs-utils and perftest of the
distribution find each other by LID and by GID, their packets take the way that OpenSM has set up, and all
counters on it agree. Needs root, to become that user.

Usage: fabric_data_test.py --build build/release [Programs | Counters.test_... ...]
"""
import os
import re
import shutil
import sys
import unittest

import hosts
from fabric_pairs import Pairs, subnet
from fabrics import HOSTS

INSTALLATION = None


class Programs(Pairs, unittest.TestCase):
    """One subnet, for programs that do not change it."""

    @classmethod
    def setUpClass(cls):
        cls.fabric = subnet(cls, INSTALLATION)
        cls.lids = {host: cls.fabric.lid_of(host) for host in HOSTS}

    def test_pingpongs_by_lid(self):
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            with self.subTest(program):
                listening, connecting = self.passes(self.fabric, program)
                self.assertIn("1000 iters in", connecting)
                self.assertIn(f"LID 0x{self.lids['h0']:04x}", connecting)
                self.assertIn(f"LID 0x{self.lids['h3']:04x}", connecting)
                self.assertIn("GID ::", listening)

    def test_pingpongs_by_gid(self):
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            with self.subTest(program):
                _, connecting = self.passes(self.fabric, program, "-g", "0")
                self.assertIn("1000 iters in", connecting)
                self.assertRegex(connecting, r"GID fe80::")

    def test_pingpong_with_events(self):
        self.passes(self.fabric, "ibv_rc_pingpong", "-e")

    def test_two_processes_of_one_node(self):
        self.passes(self.fabric, "ibv_rc_pingpong", server="h0", client="h0")
        self.passes(self.fabric, "ib_write_bw", "-n", "100", server="h0", client="h0")

    def test_every_size(self):
        for size in ("1", "4095", "4096", "4097", "100000"):
            self.passes(self.fabric, "ibv_rc_pingpong", "-c", "-n", "50", "-s", size)

    def test_perftest(self):
        for verb in ("write", "read", "send", "atomic"):
            for kind in ("bw", "lat"):
                with self.subTest(f"ib_{verb}_{kind}"):
                    listening, connecting = self.passes(self.fabric, f"ib_{verb}_{kind}", "-n", "500")
                    self.assertRegex(connecting, r"Link type +: IB")
                    self.assertRegex(connecting, r"Mtu +: 4096\[B\]")
                    self.assertRegex(connecting, r"LID 0x0*[1-9a-f]|LID \(?0x")

    def test_perftest_over_other_services(self):
        for words in (("ib_send_bw", "-c", "UD"), ("ib_send_lat", "-c", "UD"), ("ib_send_bw", "-c", "UC"),
                      ("ib_write_bw", "-c", "UC"), ("ib_send_bw", "-x", "0"), ("ib_write_bw", "-q", "4")):
            with self.subTest(" ".join(words)):
                self.passes(self.fabric, *words, "-n", "500")

    def test_all_nodes_at_once(self):
        pairs = [self.pair(self.fabric, ["ib_write_bw", "-n", "200"], server=server, client=client)
                 for server, client in (("h0", "h2"), ("h1", "h3"), ("h2", "h1"), ("h3", "h0"))]
        for pair in pairs:
            self.finish(*pair)

    def test_the_device_is_what_programs_expect(self):
        output = self.fabric.run("h0", "ibv_devinfo", "-v").stdout
        for text in (r"hca_id:\s+vib0", r"link_layer:\s+InfiniBand", r"state:\s+PORT_ACTIVE \(4\)",
                     rf"port_lid:\s+{self.lids['h0']}\b", rf"sm_lid:\s+{self.lids['h1']}\b",
                     r"active_width:\s+4X", r"active_speed:\s+25\.0 Gbps", r"GID\[ *0\]:\s+fe80:"):
            self.assertRegex(output, text)


class Counters(Pairs, unittest.TestCase):
    """What leaves a port arrives at the other end of its link, packet by packet and word by word."""
    MESSAGES, SIZE, MTU = 1000, 65536, 4096

    def test_they_add_up_on_every_port_of_the_way(self):
        made = subnet(self, INSTALLATION)
        lids = [str(made.lid_of(host)) for host in ("h0", "h3")]
        way = made.run("h0", "ibtracert", *lids).stdout
        [egress] = re.findall(r"\"leaf0\"\n\[(\d+)\]", way)
        before = self.counts(made)
        self.passes(made, "ib_write_bw", "-n", str(self.MESSAGES), "-s", str(self.SIZE))
        after = self.counts(made)
        grown = {port: {name: after[port][name] - before[port][name] for name in after[port]} for port in after}
        packets = self.MESSAGES * self.SIZE // self.MTU
        # LRH 8, BTH 12, ICRC 4; the first packet of a message has a RETH of 16 octets.
        words = (packets * (8 + 12 + self.MTU + 4) + self.MESSAGES * 16) // 4
        for port in ("h0[1]", f"leaf0[{egress}]"):
            self.assertGreaterEqual(grown[port]["sent_packets"], packets, port)
            self.assertGreaterEqual(grown[port]["sent_words"], words, port)
        other = {"3": "leaf0[4]", "4": "leaf0[3]"}[egress]
        self.assertLess(grown[other]["sent_packets"], packets // 20, "packets leave where ibtracert does not say")
        for port in after:
            if peer := self.peers[port]:
                self.assertEqual(after[port]["sent_packets"], after[peer]["received_packets"], (port, peer))
                self.assertEqual(after[port]["sent_words"], after[peer]["received_words"], (port, peer))

    def counts(self, made):
        """What each port has counted since the beginning, at one moment."""
        ports = {f"{port['node']}[{port['port']}]": port for port in made.ports()}
        self.peers = {name: port["peer"] for name, port in ports.items()}
        return {name: port["counters"] for name, port in ports.items()}


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    programs = ("opensm", "ibtracert", "ibv_rc_pingpong", "ib_write_bw")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
