#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Larger programs of the distribution between the nodes of a fabric, as an ordinary user: qperf, perftest with
multicast, UCX, Open MPI over UCX with each rank on another node, and any hosts of a large subnet. Needs root, to become
that user.

Usage: fabric_programs_test.py --build build/release [--full] [Ucx | LargeSubnet.test_... ...]
"""
import json
import os
import random
import re
import shutil
import sys
import time
import unittest

import hosts
from fabrics import HOSTS, TREE, Fabric

INSTALLATION = None
FULL = "--full" in sys.argv
RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_ranks.py")


class OnASubnet(unittest.TestCase):
    TOPOLOGY = TREE
    next_port = 19200

    @classmethod
    def setUpClass(cls):
        cls.made = Fabric(INSTALLATION, cls.TOPOLOGY)
        cls.addClassCleanup(cls.made.end)
        cls.made.await_up()
        cls.made.start_opensm("h1", "osm.log")
        cls.await_active()

    @classmethod
    def await_active(cls):
        cls.made.await_active()

    def pair(self, server_words, client_words, server="h3", client="h0", serves_for_ever=False):
        """Runs both ends; the output of the client."""
        type(self).next_port += 1
        port = str(self.next_port)
        fill = lambda words: [word.replace("PORT", port) for word in words]
        listening = self.made.start(server, *fill(server_words))
        deadline = time.monotonic() + hosts.PATIENCE
        self.assertTrue(listening.await_listening(self.next_port, deadline), listening.output())
        connecting = self.made.start(client, *fill(client_words))
        try:
            self.assertEqual(connecting.wait(deadline), 0, connecting.output() + listening.output())
            if not serves_for_ever:
                self.assertEqual(listening.wait(deadline), 0, listening.output())
        finally:
            connecting.end()
            listening.end()
        return connecting.output()


class Perftest(OnASubnet):
    def test_multicast(self):
        """perftest joins the group by itself, with datagrams of subnet administration."""
        groups = r"MGID\.+ff01::2:c985"
        for program in ("ib_send_bw", "ib_send_lat"):
            words = [program, "-c", "UD", "-g", "-n", "200", "-p", "PORT"]
            self.assertRegex(self.pair(words, [*words, "127.0.0.1"]), r"MGID: 255:01:00:00:00:02:201:133:")
            self.assertNotRegex(self.made.run("h1", "saquery", "-g").stdout, groups, "a member has not left")

    @unittest.skipUnless(FULL, "takes minutes")
    def test_every_service_and_verb(self):
        for service, verbs in (("RC", ("write", "read", "send", "atomic")), ("UC", ("write", "send")), ("UD", ("send",))):
            for verb in verbs:
                for kind in ("bw", "lat"):
                    for more in ([], ["-e"] if verb == "send" else [], ["-b"] if kind == "bw" else [], ["-a"]):
                        if more == ["-a"] and (verb == "atomic" or service == "UD"):
                            continue
                        words = [f"ib_{verb}_{kind}", "-c", service, "-p", "PORT", *more]
                        words += [] if "-a" in more else ["-n", "200"]
                        if verb == "atomic":
                            words.remove("-c"), words.remove(service)
                        with self.subTest(" ".join(words)):
                            self.assertRegex(self.pair(words, [*words, "127.0.0.1"]), r"Link type +: IB")


class Qperf(OnASubnet):
    TESTS = ("rc_bw", "rc_lat", "uc_bw", "ud_lat", "rc_rdma_write_bw", "rc_rdma_read_lat", "rc_fetch_add_mr")
    ALL = (*TESTS, "uc_lat", "ud_bw", "rc_bi_bw", "rc_rdma_write_lat", "rc_rdma_read_bw", "rc_compare_swap_mr",
           "uc_rdma_write_bw", "uc_rdma_write_lat", "uc_rdma_write_poll_lat", "rc_rdma_write_poll_lat",
           "ver_rc_fetch_add", "ver_rc_compare_swap")

    def test_by_lid(self):
        tests = self.ALL if FULL else self.TESTS[:3]
        output = self.pair(["qperf", "-lp", "PORT"],
                           ["qperf", "127.0.0.1", "-lp", "PORT", "-t", "1", "-to", "30", *tests], serves_for_ever=True)
        for test in tests:
            self.assertRegex(output, rf"(?m)^{test}:\n +\w+ += ")


class Ucx(OnASubnet):
    WAYS = ("rc_v", "ud_v")
    TESTS = ("tag_lat", "ucp_put_lat", "ucp_get", "ucp_fadd", "tag_bw")

    def test_ucx_perftest(self):
        for way in self.WAYS:
            for test in self.TESTS if FULL else self.TESTS[:2]:
                for size in ("8", "100000") if FULL and test != "ucp_fadd" else ("8",):
                    with self.subTest(way=way, test=test, size=size):
                        words = ["env", f"UCX_TLS={way}", "UCX_NET_DEVICES=vib0:1", "ucx_perftest", "-p", "PORT"]
                        output = self.pair(words, [*words, "-t", test, "-s", size, "-n", "500", "-w", "50", "127.0.0.1"])
                        self.assertIn("Final:", output)

    @unittest.skipUnless(FULL, "the two services are enough for each change")
    def test_over_another_path(self):
        """UCX takes the LIDs of LMC > 0 in turns."""
        self.made.stop(self.made.programs[1])
        self.made.start_opensm("h1", "lmc.log", "-r", "-l", "2")
        deadline = time.monotonic() + hosts.PATIENCE
        while self.made.lid_of("h0") % 4 != 0 or "LMC: 2" not in self.made.run("h0", "ibstat").stdout:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        for bits in ("0-3", "1", "2-3"):
            words = ["env", "UCX_TLS=rc_v", "UCX_NET_DEVICES=vib0:1", f"UCX_IB_LID_PATH_BITS={bits}", "ucx_perftest",
                     "-p", "PORT"]
            self.assertIn("Final:", self.pair(words, [*words, "-t", "tag_lat", "-n", "500", "127.0.0.1"]))


class OpenMpi(OnASubnet):
    def ranks(self, count, ways):
        """Each rank runs on the node of its number."""
        nodes = " ".join(HOSTS)
        wrapper = (f"set -- {nodes}; shift $((OMPI_COMM_WORLD_RANK % 4)); "
                   f"exec {self.made.command} run --fabric {self.made.name} --node $1 /usr/bin/python3 {RANKS}")
        words = ["env", "-C", self.made.folder, *hosts.NOBODY, "env", f"HOME={self.made.folder}", f"UCX_TLS={ways}",
                 "UCX_NET_DEVICES=vib0:1", "mpirun", "--oversubscribe", "-n", str(count), "--mca", "pml", "ucx", "--mca",
                 "btl", "^openib", "sh", "-c", wrapper]
        done = hosts.Process(words)
        try:
            self.assertEqual(done.wait(time.monotonic() + hosts.PATIENCE), 0, done.output())
            return done.output()
        finally:
            done.end()

    def test_connections(self):
        self.assertIn("2 processes agree", self.ranks(2, "rc_v,self"))

    @unittest.skipUnless(FULL, "one service is enough for each change")
    def test_all_nodes(self):
        for ways in ("rc_v,self", "ud_v,self", "rc_v,ud_v,self"):
            with self.subTest(ways):
                self.assertIn("4 processes agree", self.ranks(4, ways))


class LargeSubnet(OnASubnet):
    """1,024 hosts; a quick run has 128."""
    LEAVES, PER_LEAF, SPINES = (32, 32, 16) if FULL else (8, 16, 4)
    TOPOLOGY = ("--fat-tree", f"{LEAVES}x{PER_LEAF}/{SPINES}")

    @classmethod
    def await_active(cls):
        deadline = time.monotonic() + hosts.PATIENCE
        while (counts := json.loads(cls.made.tell("show", "--json").stdout))["ports"] != counts["ports_active"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"ports are not active: {counts}")
            time.sleep(0.05)

    def test_any_pair_of_hosts(self):
        count = self.LEAVES * self.PER_LEAF
        seed = int.from_bytes(os.urandom(4))
        chosen = random.Random(seed)
        for _ in range(20 if FULL else 4):
            server, client = chosen.sample(range(count), 2)
            with self.subTest(seed=seed, server=server, client=client):
                words = ["ib_write_bw", "-n", "100", "-p", "PORT"]
                output = self.pair(words, [*words, "127.0.0.1"], server=f"h{server}", client=f"h{client}")
                self.assertRegex(output, r"Link type +: IB")


def main():
    sys.argv = [word for word in sys.argv if word != "--full"]

    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    programs = ("opensm", "qperf", "ucx_perftest", "mpirun", "ib_send_bw")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
