#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""OpenSM, infiniband-diags and ibutils of the distribution on the nodes of a fabric, as an ordinary
user: the subnet comes up, is shown, is searched, loses a link and its subnet manager. Needs root, to
become that user.

Usage: fabric_test.py --build build/release [Subnet | Engines.test_lash ...]
"""
import argparse
import concurrent.futures
import io
import json
import os
import re
import shutil
import signal
import sys
import time
import unittest

import hosts
from fabrics import HOSTS, SM_HOST, TREE, Fabric

SKIPPED = 77
INSTALLATION = None
PORTS = 6  # of the tree that have a LID: four hosts and two switches


def fabric(test, topology=TREE, options=()):
    made = Fabric(INSTALLATION, topology, options)
    test.addCleanup(made.end) if isinstance(test, unittest.TestCase) else test.addClassCleanup(made.end)
    return made.await_up()


def await_ping(test, fabric_of_test, node, lid):
    """Until the server listens, pings are refused at once."""
    deadline = time.monotonic() + hosts.PATIENCE
    while " 1 received" not in fabric_of_test.run(node, "ibping", "-c", "1", "-f", "-L", str(lid)).stdout:
        test.assertLess(time.monotonic(), deadline, "no answer")


class Subnet(unittest.TestCase):
    """One subnet that is up, for tests that do not change it."""

    @classmethod
    def setUpClass(cls):
        cls.fabric = fabric(cls)
        cls.opensm = cls.fabric.start_opensm()
        cls.fabric.await_active()
        cls.lids = {host: cls.fabric.lid_of(host) for host in HOSTS}
        cls.inventory = cls.fabric.run("h2", "osmtest", "-f", "c")
        # Takes a quarter of a minute, in which it waits for answers that must not come.
        cls.validation = cls.fabric.start("h2", "osmtest", "-f", "a")

    def run_on(self, node, *program):
        """The output of a program, which must end well."""
        done = self.fabric.run(node, *program)
        self.assertEqual(done.returncode, 0, f"{' '.join(program)}: {done.stdout}{done.stderr}")
        return done.stdout

    def tearDown(self):
        self.assertIsNone(self.opensm.child.poll(), "OpenSM has ended: " + self.opensm.output())

    def test_ibstat_shows_the_port(self):
        port = self.fabric.port_of("h0")
        self.assertEqual(port["State"], "Active")
        self.assertEqual(port["Physical state"], "LinkUp")
        self.assertEqual(port["Rate"], "100")
        self.assertGreater(int(port["Base lid"]), 0)
        self.assertEqual(int(port["SM lid"]), self.lids[SM_HOST])
        self.assertEqual(port["Link layer"], "InfiniBand")

    def test_what_ibnetdiscover_prints_is_the_same_fabric_again(self):
        printed = self.run_on("h0", "ibnetdiscover")
        path = os.path.join(self.fabric.folder, "printed.net")
        with open(path, "w") as file:
            file.write(printed)
        again = fabric(self, [path])
        again.start_opensm()
        again.await_active()
        self.assertEqual(without_comments(again.run("h0", "ibnetdiscover").stdout),
                         without_comments(printed))

    def test_saquery_shows_all_records(self):
        def count(record, *words):
            return self.run_on("h0", "saquery", *words).count(f"{record} dump")
        self.assertEqual(count("NodeRecord", "NodeRecord"), PORTS)
        self.assertEqual(count("PathRecord", "-p"), PORTS * PORTS)
        self.assertGreater(count("PortInfoRecord", "PIR"), PORTS)
        self.assertEqual(count("LinkRecord", "LR"), 2 * (4 + 2))

    def test_ibping_goes_both_ways(self):
        for server, client in (("h3", "h0"), ("h0", "h3")):
            listening = self.fabric.start(server, "ibping", "-S")
            self.assert_pings(client, self.lids[server])
            listening.end()

    def test_opensm_survives_ibping_to_its_port(self):
        done = self.fabric.run("h0", "ibping", "-c", "2", "-L", str(self.lids[SM_HOST]))
        self.assertIn("2 packets transmitted, 0 received", done.stdout + done.stderr)
        listening = self.fabric.start(SM_HOST, "ibping", "-S")
        self.assert_pings("h0", self.lids[SM_HOST])
        listening.end()

    def assert_pings(self, node, lid):
        await_ping(self, self.fabric, node, lid)
        output = self.run_on(node, "ibping", "-c", "5", "-f", "-L", str(lid))
        self.assertIn("5 packets transmitted, 5 received, 0% packet loss", output)

    def test_ibtracert_shows_the_way(self):
        output = self.run_on("h0", "ibtracert", str(self.lids["h0"]), str(self.lids["h3"]))
        self.assertEqual(re.findall(r'"(\S+)"', output), ["h0", "leaf0", "leaf1", "h3", "h3"])

    def test_ibroute_shows_the_table_of_a_switch(self):
        switch = re.search(r"^Switch.*# \"leaf0\".* lid (\d+)", self.run_on("h0", "ibnetdiscover"), re.M)
        output = self.run_on("h0", "ibroute", switch.group(1))
        for lid in self.lids.values():
            self.assertIn(f"0x{lid:04x}", output)

    def test_sminfo_shows_the_master(self):
        output = self.run_on("h0", "sminfo")
        self.assertIn(f"sm lid {self.lids[SM_HOST]} ", output)
        self.assertIn("SMINFO_MASTER", output)

    def test_smpquery_shows_attributes(self):
        for attribute in ("nodeinfo", "nodedesc", "pkeys", "sl2vl", "vlarb", "guidinfo"):
            self.run_on("h0", "smpquery", attribute, str(self.lids["h3"]))
        output = self.run_on("h0", "smpquery", "portinfo", str(self.lids["h3"]), "1")
        self.assertRegex(output, r"LinkState:\.+Active")
        self.assertRegex(output, rf"Lid:\.+{self.lids['h3']}\b")
        self.assertRegex(self.run_on("h0", "smpquery", "-D", "nodedesc", "0,1"), "leaf0")

    def test_iblinkinfo_shows_rates_of_links(self):
        output = self.run_on("h0", "iblinkinfo")
        self.assertEqual(len(re.findall(r"4X +25\.78125 Gbps Active/ +LinkUp", output)), 12, output)

    def test_ibqueryerrors_finds_none(self):
        output = self.run_on("h0", "ibqueryerrors")
        self.assertIn("0 bad nodes found", output)

    def test_perfquery_shows_and_resets_counters(self):
        output = self.run_on("h0", "perfquery", "-x", str(self.lids["h3"]), "1")
        self.assertGreater(int(re.search(r"PortXmitPkts:\.*(\d+)", output).group(1)), 0)
        self.run_on("h0", "perfquery", "-R", str(self.lids["h3"]), "1")
        self.run_on("h0", "perfquery", "-a", str(self.lids["h3"]))

    def test_the_validation_by_osmtest_passes(self):
        self.assertIn('OSMTEST: TEST "Create Inventory" PASS', self.inventory.stdout)
        self.assertEqual(self.validation.wait(time.monotonic() + hosts.PATIENCE), 0)
        self.assertIn('OSMTEST: TEST "All Validations" PASS', self.validation.output())


def without_comments(printed):
    """ibnetdiscover's output without comments, so without LIDs."""
    lines = (re.sub(r"\s*#.*", "", line) for line in printed.splitlines())
    return [line for line in lines if line and not line.startswith(("vendid", "devid", "sysimgguid"))]


class ComingUp(unittest.TestCase):
    def test_opensm_says_so_without_an_error(self):
        made = fabric(self)
        opensm = made.start_opensm()
        made.await_active()
        made.stop(opensm)
        log = made.file("osm.log")
        self.assertIn("SUBNET UP", log)
        self.assertNotIn("ERR", log)

    @unittest.skipUnless(shutil.which("ibdmchk"), "ibutils is not installed")
    def test_ibdmchk_finds_no_credit_loop(self):
        made = fabric(self)
        opensm = made.start("h1", "env", f"OSM_TMP_DIR={made.folder}", "opensm", "-D", "0x43", "-e",
                            "-f", "osm.log")
        made.await_active()
        made.stop(opensm)
        done = made.run("h0", "ibdmchk", "-s", "opensm-subnet.lst", "-f", "opensm.fdbs", "-m",
                        "opensm.mcfdbs")
        self.assertIn("Scanned:12 CA to CA paths", done.stdout)
        self.assertIn("no credit loops found", done.stdout)  # Debian's then crashes, with ibsim as well


class Changes(unittest.TestCase):
    def test_the_second_opensm_takes_over_from_a_killed_one(self):
        made = fabric(self)
        first = made.start_opensm("h1", "first.log", "-p", "10")
        made.await_active()
        with open(os.path.join(made.folder, "patience.conf"), "w") as file:
            file.write("sminfo_polling_timeout 500\npolling_retry_number 2\n")  # not 10 s, 4 times
        second = made.start_opensm("h2", "second.log", "-p", "1", "-F", "patience.conf")
        self.await_output(made, "h0", "SMINFO_STANDBY", str(made.lid_of("h2")))
        first.end()
        self.await_output(made, "h0", f"sm lid {made.lid_of('h2')} ")
        self.assertIn("SMINFO_MASTER", made.run("h0", "sminfo").stdout)
        self.assertIsNone(second.child.poll(), second.output())

    def await_output(self, made, node, wanted, *words):
        deadline = time.monotonic() + hosts.PATIENCE
        while wanted not in made.run(node, "sminfo", *words).stdout:
            self.assertLess(time.monotonic(), deadline, f"sminfo does not say {wanted}")

    def test_a_cut_link_is_routed_around(self):
        made = fabric(self)
        opensm = made.start_opensm()
        made.await_active()
        lids = [str(made.lid_of(node)) for node in ("h0", "h3")]
        port = self.egress(made, lids)
        made.tell("link", "down", f"leaf0[{port}]")
        deadline = time.monotonic() + hosts.PATIENCE
        while self.egress(made, lids) in (None, port):
            self.assertLess(time.monotonic(), deadline, "no other way")
        made.tell("link", "up", f"leaf0[{port}]")
        made.stop(opensm)
        self.assertRegex(made.file("osm.log"), r"num:128")

    @staticmethod
    def egress(made, lids):
        """The port by which packets leave leaf0 for leaf1."""
        found = re.search(r'"leaf0"\n\[(\d+)\] -> switch port .*"leaf1"', made.run("h0", "ibtracert", *lids).stdout)
        return found and found.group(1)

    def test_the_shown_route_is_that_of_packets(self):
        made = fabric(self)
        opensm = made.start_opensm()
        made.await_active()
        self.assertEqual(len(made.tell("show", "route", "h0", "h0").stdout.splitlines()), 1)
        made.stop(opensm)
        made.tell("link", "down", "h3")
        made.tell("link", "up", "h3")
        done = made.tell("show", "route", "h0", "h3", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("leaf1[2] discards it: it is in state Init", done.stderr)

    def test_strict_switches_hide_speeds_from_programs_that_do_not_ask(self):
        made = fabric(self, TREE, ["--rate", "4xHDR", "--strict-switches"])
        made.start_opensm()
        made.await_active()
        output = made.run("h0", "iblinkinfo").stdout
        self.assertEqual(len(re.findall(r"4X +53\.125 Gbps Active", output)), 4, output)  # hosts
        self.assertEqual(len(re.findall(r"4X +10\.0 Gbps Active", output)), 8, output)

    def test_ibping_tries_again_when_datagrams_are_lost(self):
        made = fabric(self)
        made.start_opensm()
        made.await_active()
        lid = str(made.lid_of("h3"))
        made.start("h3", "ibping", "-S")
        await_ping(self, made, "h0", lid)
        made.tell("link", "loss", "h3[1]", "10")
        done = made.run("h0", "ibping", "-f", "-c", "100", "-t", "200", "-L", lid)
        received = int(re.search(r"(\d+) received", done.stdout).group(1))
        # One of five round trips fails, so 81 pings would be answered without a second and third try, and
        # 99 are with them. The bound lies three standard deviations above the one and six below the other.
        self.assertGreaterEqual(received, 94, done.stdout + done.stderr)

    def test_the_end_of_the_fabric_hangs_no_program(self):
        made = fabric(self)
        opensm = made.start_opensm()
        made.await_active()
        os.killpg(made.process.child.pid, signal.SIGKILL)
        made.process.child.wait()
        done = made.run("h0", "ibstat")
        self.assertNotEqual(done.returncode, 0)
        self.assertIsNotNone(made.stop(opensm), "OpenSM hangs")
        self.assertIn("the fabric has ended", opensm.output())


class Engines(unittest.TestCase):
    """Each routing engine brings a subnet up that it was made for, and does not fall back to minhop."""

    def check(self, engine, topology, *options, files=None):
        made = fabric(self, topology)
        guids = {node["name"]: node["guid"] for node in json.loads(made.tell("show", "nodes", "--json").stdout)}
        for name, text in (files or {}).items():
            with open(os.path.join(made.folder, name), "w") as file:
                file.write(re.sub(r"\{(.*?)\}", lambda node: guids[node.group(1)], text))
        opensm = made.start_opensm(SM_HOST, "osm.log", "-R", engine, *options)
        made.await_active(HOSTS)
        made.stop(opensm)
        log = made.file("osm.log")
        self.assertIn(f"{engine} tables configured on all switches", log)
        self.assertIn("SUBNET UP", log)
        self.assertNotIn("ERR", log)

    def test_minhop(self):
        self.check("minhop", TREE)

    def test_updn(self):
        self.check("updn", ["--fat-tree", "4x2/2"], "-a", "roots", files={"roots": "{spine0}\n{spine1}\n"})

    def test_ftree(self):
        self.check("ftree", ["--fat-tree", "4x2/2"])

    def test_lash(self):
        self.check("lash", ["--ring", "6"], "-Q")

    def test_dfsssp(self):
        self.check("dfsssp", ["--ring", "6"], "-Q")

    def test_torus_2qos(self):
        seed = ("torus 4 4 1\nxp_link {sw0.0} {sw1.0}\nxm_link {sw0.0} {sw3.0}\n"
                "yp_link {sw0.0} {sw0.1}\nym_link {sw0.0} {sw0.3}\n")
        self.check("torus-2QoS", ["--torus", "4x4"], "-Q", "--torus_config", "torus.conf",
                   files={"torus.conf": seed})


def main():
    global INSTALLATION
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("tests", nargs="*", help="as Subnet or Engines.test_lash")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: needs root, to become an ordinary user")
        return SKIPPED
    missing = [program for program in ("opensm", "ibstat", "saquery") if shutil.which(program) is None]
    if missing:
        print(f"SKIPPED: {', '.join(missing)} of opensm and infiniband-diags is not installed")
        return SKIPPED
    INSTALLATION = hosts.Installation(options.build)
    try:
        return 0 if run_side_by_side(options.tests) else 1
    finally:
        INSTALLATION.remove()


def run_side_by_side(names):
    """Each class in a thread of its own: most of the time the tests wait for programs."""
    loader = unittest.defaultTestLoader
    classes = [Subnet, Changes, ComingUp, Engines]
    suites = ([loader.loadTestsFromNames(names, sys.modules[__name__])] if names
              else [loader.loadTestsFromTestCase(one) for one in classes])
    streams = [io.StringIO() for _ in suites]
    with concurrent.futures.ThreadPoolExecutor(len(suites)) as threads:
        runs = [threads.submit(unittest.TextTestRunner(stream, verbosity=2).run, suite)
                for stream, suite in zip(streams, suites)]
        results = [run.result() for run in runs]
    for stream in streams:
        print(stream.getvalue(), file=sys.stderr)
    return all(result.wasSuccessful() for result in results)


if __name__ == "__main__":
    sys.exit(main())
