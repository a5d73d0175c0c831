#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tables that the distribution's OpenSM has computed for a fabric, in virtual time: `verbatim sim --fabric` reads all
its dumps, and names the credit loop that ibdmchk of ibutils names. The same loop stops programs on a fabric that runs. As an ordinary user; needs root to become that user.

Usage: fabric_sim_test.py --build build/release [Dumps | Dumps.test_...]
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import hosts
from fabrics import Fabric

SKIPPED = 77
INSTALLATION = None
DUMPS = ("opensm.fdbs", "opensm-lfts.dump", "fts.out")
SHIFT = ("--pattern", "shift:2", "--duration", "100us")


class Dumped:
    """A fabric on which OpenSM has run once; its dumps stay in `folder` when the fabric has ended."""

    def __init__(self, topology, *options):
        made = Fabric(INSTALLATION, topology)
        self.folder = made.folder
        try:
            made.await_up()
            self.switches = {node["guid"]: node["name"]
                             for node in json.loads(made.tell("show", "nodes", "--json").stdout)
                             if node["kind"] == "switch"}
            done = made.run("h0", "env", f"OSM_TMP_DIR={self.folder}", f"OSM_CACHE_DIR={self.folder}", "opensm", "-o",
                            "-e", "-D", "0x43", "-f", "osm.log", *options)
            if done.returncode != 0:
                raise RuntimeError(f"opensm: {done.stdout}{done.stderr}{made.file('osm.log')}")
            self.dump_fts = made.run("h0", "dump_fts").stdout
            with open(os.path.join(self.folder, "fts.out"), "w") as file:
                file.write(self.dump_fts)
            self.checked = made.run("h0", "ibdmchk", "-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m",
                                    "opensm.mcfdbs").stdout if shutil.which("ibdmchk") else None
        finally:
            made.end()

    def path(self, name):
        return os.path.join(self.folder, name)

    def loop_of_ibdmchk(self):
        """The switch ports on the loop that it has found: pairs of name and port."""
        ports = re.findall(r"credit loop (?:on|through): S([0-9a-f]{16})/U1/P(\d+) ", self.checked)
        return {(self.switches["0x" + guid], int(port)) for guid, port in ports
                if "0x" + guid in self.switches}


def simulated(topology, *options, status=0):
    """What `verbatim sim --fabric` says, as a dictionary."""
    done = subprocess.run([INSTALLATION.command, "sim", "--fabric", topology, "--json", *options],
                          capture_output=True, text=True, timeout=hosts.PATIENCE)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def ports_of(cycle):
    return {(lane["node"], lane["port"]) for lane in cycle}


class Dumps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ring = Dumped(["--ring", "6"])
        cls.tree = Dumped(["--fat-tree", "4x2/2"])

    def test_all_dumps_of_one_subnet_say_the_same(self):
        for topology, dumped in (("ring:6", self.ring), ("fat-tree:4x2/2", self.tree)):
            reports = []
            for name in DUMPS:
                report = simulated(topology, "--lft", dumped.path(name), "--duration", "10us", "--pattern", "uniform")
                self.assertEqual(report["broken_ways"], 0, name)
                report.pop("routes")
                reports.append(report)
            self.assertEqual(reports[0], reports[1])
            self.assertEqual(reports[0], reports[2])

    def test_a_tree_has_no_credit_loop(self):
        report = simulated("fat-tree:4x2/2", "--lft", self.tree.path("opensm.fdbs"), "--pattern", "permutation")
        self.assertEqual(report["credit_loops"], [])
        self.assertIsNone(report["deadlock"])
        self.assertGreater(report["delivered_packets"], 1000)
        if self.tree.checked:
            self.assertIn("no credit loops found", self.tree.checked)

    @unittest.skipUnless(shutil.which("ibdmchk"), "ibutils is not installed")
    def test_the_deadlock_of_a_ring_is_the_loop_that_ibdmchk_names(self):
        wanted = self.ring.loop_of_ibdmchk()
        self.assertEqual(len(wanted), 6, self.ring.checked)
        tables = ("--lft", self.ring.path("opensm.fdbs"))
        report = simulated("ring:6", *tables, *SHIFT, "--queue-life", "off", "--seed", "42", status=1)
        self.assertIn(wanted, [ports_of(loop) for loop in report["credit_loops"]])
        self.assertEqual(ports_of(report["deadlock"]["cycle"]), wanted)
        self.assertTrue(report["deadlock"]["lasts"])
        self.assertEqual(report["dropped_packets"], 0)
        again = simulated("ring:6", *tables, *SHIFT, "--queue-life", "off", "--seed", "42", status=1)
        self.assertEqual(report, again)

    def test_the_life_of_a_queue_breaks_the_deadlock_with_discards(self):
        report = simulated("ring:6", "--lft", self.ring.path("opensm.fdbs"), "--pattern", "shift:2", "--message",
                           "4096", "--queue-life", "4", "--duration", "3ms", status=1)
        self.assertFalse(report["deadlock"]["lasts"])
        self.assertGreater(report["dropped_packets"], 100)
        self.assertEqual(sum(report["drops"].values()), report["dropped_packets"])
        self.assertGreater(report["delivered_packets"], 100)

    def test_up_and_down_of_opensm_does_not_deadlock(self):
        with open(os.path.join(self.ring.folder, "roots"), "w") as file:
            file.write(next(guid for guid, name in self.ring.switches.items() if name == "sw0") + "\n")
        dumped = Dumped(["--ring", "6"], "-R", "updn", "-a", os.path.join(self.ring.folder, "roots"))
        report = simulated("ring:6", "--lft", dumped.path("opensm.fdbs"), *SHIFT, "--queue-life", "off")
        self.assertEqual(report["credit_loops"], [])
        self.assertIsNone(report["deadlock"])

    def test_lanes_are_read_too(self):
        dumped = Dumped(["--ring", "6"], "-R", "lash", "-Q")
        report = simulated("ring:6", "--lft", dumped.path("opensm.fdbs"), "--sl2vl",
                           dumped.path("opensm-sl2vl.dump"), "--sl", "1", "--duration", "10us")
        self.assertEqual(report["broken_ways"], 0)
        self.assertEqual({lane["lane"] for loop in report["credit_loops"] for lane in loop}, {1})

    def test_a_dump_of_another_fabric_is_refused_with_its_line(self):
        path = self.ring.path("opensm.fdbs")
        done = subprocess.run([INSTALLATION.command, "sim", "--fabric", "tree:2x2", "--lft", path],
                              capture_output=True, text=True, timeout=hosts.PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, rf"^verbatim sim: {re.escape(path)}:\d+: .*; the dump is of another fabric\n$|"
                                      rf"^verbatim sim: {re.escape(path)}:\d+: the table of ")


class Running(unittest.TestCase):
    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_programs_on_a_ring_deadlock_and_each_port_of_the_cycle_is_named(self):
        made = Fabric(INSTALLATION, ["--ring", "6"], ["--rate", "1xSDR", "--rates", "1/16"])
        self.addCleanup(made.end)
        made.await_up()
        with open(os.path.join(made.folder, "life.conf"), "w") as file:  # above 0x13: for ever
            file.write("head_of_queue_lifetime 0x14\nleaf_head_of_queue_lifetime 0x14\npacket_life_time 0x14\n")
        made.start_opensm("h1", "osm.log", "-F", "life.conf")
        made.await_active([f"h{host}" for host in range(6)])
        before = self.shown(made)
        self.assertEqual(before["deadlocks"], [])
        loops = [ports_of(loop) for loop in before["credit_loops"]]
        self.assertEqual(len(loops), 2)
        # Longer than the patience of the test; it ends them.
        words = ("ib_write_bw", "-D", "600", "-u", "20", "-p")
        for host in range(6):
            made.start(f"h{(host + 2) % 6}", *words, str(18000 + host))
        for host in range(6):
            # perftest tries to connect once: the script waits until the server listens.
            made.start(f"h{host}", "sh", "-c",
                       f"until grep -qi ':{18000 + host:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; "
                       f"exec {' '.join(words)} {18000 + host} 127.0.0.1")
        deadline = time.monotonic() + hosts.PATIENCE
        while not self.shown(made)["deadlocks"]:
            self.assertLess(time.monotonic(), deadline, "no deadlock")
            time.sleep(0.2)
        deadlock = self.shown(made)["deadlocks"][0]
        self.assertIn(ports_of(deadlock["cycle"]), loops)
        self.assertEqual(self.shown(made)["deadlocks"][0]["since_seconds"], deadlock["since_seconds"])
        self.assertIn("deadlock since ", made.tell("show", "deadlock").stdout)

    @staticmethod
    def shown(made):
        return json.loads(made.tell("show", "deadlock", "--json").stdout)


def main():
    global INSTALLATION
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("tests", nargs="*", help="as Dumps or Dumps.test_lanes_are_read_too")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: needs root, to become an ordinary user")
        return SKIPPED
    missing = [program for program in ("opensm", "dump_fts") if shutil.which(program) is None]
    if missing:
        print(f"SKIPPED: {', '.join(missing)} of opensm and infiniband-diags is not installed")
        return SKIPPED
    INSTALLATION = hosts.Installation(options.build)
    try:
        suite = (unittest.defaultTestLoader.loadTestsFromNames(options.tests, sys.modules[__name__]) if options.tests
                 else unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
        return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1
    finally:
        INSTALLATION.remove()


if __name__ == "__main__":
    sys.exit(main())
