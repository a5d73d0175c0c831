#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The async events of a port of a fabric, as ibv_asyncwatch of the distribution prints them: each is caused by the
real OpenSM, or by what a user does to the fabric. Needs root, to become an ordinary user.

Usage: fabric_events_test.py --build build/release [Events | Events.test_... ...]
"""
import os
import re
import shutil
import signal
import sys
import time
import unittest

import hosts
from fabrics import TREE, Fabric
from verbs_agents import await_that

INSTALLATION = None
ACTIVE, ERROR, LID, PKEY, SM, REREGISTER, GID, FATAL = (
    "IBV_EVENT_" + name for name in ("PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE",
                                     "CLIENT_REREGISTER", "GID_CHANGE", "DEVICE_FATAL"))


class Events(unittest.TestCase):
    def setUp(self):
        self.made = Fabric(INSTALLATION, TREE)
        self.addCleanup(self.made.end)
        self.made.await_up()

    def start_manager(self, node="h1", *options, log="osm.log"):
        manager = self.made.start_opensm(node, log, *options)
        self.made.await_active()
        return manager

    def watch(self, node="h0"):
        watch = self.made.start(node, "stdbuf", "-oL", "ibv_asyncwatch")
        self.assertTrue(await_that(lambda: "async event FD" in watch.output()), watch.output())
        return watch

    def events_of(self, watch):
        return re.findall(r"event_type (\w+) \(\d+\), port 1$", watch.output(), re.M)

    def expect(self, watch, *wanted, without=()):
        """Each of the wanted events comes, and none of the others."""
        self.assertTrue(await_that(lambda: set(wanted) <= set(self.events_of(watch))), watch.output())
        time.sleep(0.1)
        self.assertFalse(set(without) & set(self.events_of(watch)), watch.output())

    def test_the_first_subnet_manager_brings_a_port_up(self):
        watch = self.watch()
        self.start_manager()
        self.expect(watch, ACTIVE, LID, SM, REREGISTER, without=(ERROR, GID, FATAL))

    def test_a_cable_that_is_pulled_and_plugged_in(self):
        self.start_manager()
        watch, other = self.watch(), self.watch("h2")
        self.made.tell("link", "down", "h0[1]")
        self.expect(watch, ERROR, without=(ACTIVE, FATAL))
        self.made.tell("link", "up", "h0[1]")
        self.expect(watch, ERROR, ACTIVE, without=(FATAL,))
        self.assertNotIn(ERROR, self.events_of(other))

    def test_a_short_outage_is_seen_by_a_program_that_was_stopped_meanwhile(self):
        self.start_manager()
        watch = self.watch()
        os.killpg(watch.child.pid, signal.SIGSTOP)
        self.made.tell("link", "down", "h0[1]")
        self.made.tell("link", "up", "h0[1]")
        self.made.await_active()
        os.killpg(watch.child.pid, signal.SIGCONT)
        self.expect(watch, ERROR, ACTIVE)
        events = self.events_of(watch)
        self.assertLess(events.index(ERROR), events.index(ACTIVE))

    def test_a_node_without_power(self):
        self.start_manager()
        watch = self.watch()
        self.made.tell("node", "off", "h0")
        self.expect(watch, ERROR, without=(FATAL, ACTIVE))
        self.made.tell("node", "on", "h0")
        self.expect(watch, ERROR, ACTIVE)

    def test_other_lids(self):
        manager = self.start_manager()
        watch = self.watch("h3")
        before = self.made.lid_of("h3")
        self.made.stop(manager)
        self.start_manager("h1", "-r", "-l", "2", log="second.log")
        self.expect(watch, LID, REREGISTER, without=(ERROR, FATAL, GID))
        self.assertNotEqual(self.made.lid_of("h3"), before)

    def test_another_subnet_manager(self):
        first = self.start_manager("h1", "-p", "10")
        self.made.start_opensm("h2", "second.log", "-p", "1")
        watch = self.watch("h3")
        os.killpg(first.child.pid, signal.SIGKILL)
        first.child.wait()
        self.expect(watch, SM, REREGISTER, without=(ERROR, FATAL, LID))

    def test_other_partitions(self):
        def write(text):
            with open(os.path.join(self.made.folder, "partitions.conf"), "w", encoding="ascii") as file:
                file.write("Default=0x7fff, ipoib: ALL=full;\n" + text)
        write("")
        manager = self.start_manager("h1", "-P", "partitions.conf")
        watch = self.watch()
        write("A=0x1: ALL=full;\n")
        os.killpg(manager.child.pid, signal.SIGHUP)
        self.expect(watch, PKEY, without=(ERROR, LID, GID))

    def test_another_subnet_prefix(self):
        with open(os.path.join(self.made.folder, "osm.conf"), "w", encoding="ascii") as file:
            file.write("subnet_prefix 0xfec0000000000001\n")
        manager = self.start_manager()
        watch = self.watch()
        self.made.stop(manager)
        self.start_manager("h1", "-F", "osm.conf", log="second.log")
        self.expect(watch, GID, without=(ERROR, FATAL))
        self.assertRegex(self.made.run("h0", "ibv_devinfo", "-v").stdout, r"GID\[ *0\]:\s+fec0::1:")

    def test_the_end_of_the_fabric(self):
        self.start_manager()
        watch = self.watch()
        os.killpg(self.made.process.child.pid, signal.SIGKILL)
        self.made.process.child.wait()
        self.expect(watch, ERROR, FATAL, without=(ACTIVE,))


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    missing = [program for program in ("opensm", "ibstat", "ibv_asyncwatch") if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
