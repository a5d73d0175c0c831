#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of rdma_cm on the nodes of a fabric, as an ordinary user: rdmacm-utils and perftest -R of the
distribution find each other by the addresses of nodes and by GIDs, ask OpenSM for their paths, and join groups
at it. OpenSM, programs and the fabric may end or stop in the middle. Needs root, to become that user.

Usage: fabric_connection_test.py --build build/release [Programs | Failures.test_... ...]
"""
import json
import os
import re
import shutil
import signal
import sys
import time
import unittest

import hosts
from fabrics import HOSTS, TREE, Fabric

INSTALLATION = None


def subnet(test, *options, before=lambda made: None):
    """A fabric whose ports OpenSM, on h1, has made Active."""
    made = Fabric(INSTALLATION, TREE)
    test.addCleanup(made.end) if isinstance(test, unittest.TestCase) else test.addClassCleanup(made.end)
    made.await_up()
    made.addresses = {node["name"]: node["address"] for node in json.loads(made.tell("show", "nodes", "--json").stdout)}
    before(made)
    made.opensm = made.start_opensm("h1", "osm.log", *options)
    return made.await_active()


def await_text(process, pattern):
    """Until the program has printed it."""
    deadline = time.monotonic() + hosts.PATIENCE
    while not re.search(pattern, process.output()):
        if time.monotonic() > deadline or process.child.poll() is not None:
            raise AssertionError(f"no {pattern} in: {process.output()}")
        time.sleep(0.02)


class Connections:
    """Runs a program on two nodes, of which the second connects to the first."""
    next_port = 7600

    def serve(self, made, node, program, port=None):
        """Without a port the program gets the next one."""
        if port is None:
            type(self).next_port += 1
            program = [*program, "-p", str(self.next_port)]
        listening = made.start(node, *program)
        self.assertTrue(listening.await_listening(port or self.next_port, time.monotonic() + hosts.PATIENCE),
                        listening.output())
        return listening

    def finish(self, *processes):
        deadline = time.monotonic() + hosts.PATIENCE
        for process in reversed(processes):
            self.assertEqual(process.wait(deadline), 0, process.output())
        return [process.output() for process in processes]

    def passes(self, made, server, client, nodes=("h3", "h0")):
        """`client` gets the port, and the address of the serving node where it says ADDRESS."""
        listening = self.serve(made, nodes[0], server.split())
        words = client.replace("ADDRESS", made.addresses[nodes[0]]).split()
        return self.finish(listening, made.start(nodes[1], *words, "-p", str(self.next_port)))


class Programs(Connections, unittest.TestCase):
    """One subnet, for programs that do not change it."""

    @classmethod
    def setUpClass(cls):
        cls.fabric = subnet(cls)

    def test_nodes_have_addresses_in_the_order_in_which_they_are_shown(self):
        network = re.fullmatch(r"127\.(\d+)\.0\.1", self.fabric.addresses["h0"])[1]
        self.assertIn(int(network), range(64, 128))
        self.assertEqual([self.fabric.addresses[host] for host in HOSTS],
                         [f"127.{network}.0.{number}" for number in range(1, 5)])
        self.assertIsNone(self.fabric.addresses["leaf0"])
        self.assertIn(self.fabric.addresses["h2"], self.fabric.tell("show", "nodes").stdout)

    def test_another_fabric_has_another_network(self):
        other = Fabric(INSTALLATION, ["--tree", "1x2"])
        self.addCleanup(other.end)
        other.await_up()
        [address] = [node["address"] for node in json.loads(other.tell("show", "nodes", "--json").stdout)
                     if node["name"] == "h0"]
        self.assertRegex(address, r"^127\.\d+\.0\.1$")
        self.assertNotEqual(address, self.fabric.addresses["h0"])

    def test_rping(self):
        for nodes in (("h3", "h0"), ("h1", "h2")):
            _, client = self.passes(self.fabric, "rping -s -C 20", "rping -c -v -C 20 -a ADDRESS", nodes)
            self.assertIn("ping data: rdma-ping-", client)

    def test_rping_of_a_node_with_itself(self):
        self.passes(self.fabric, "rping -s -C 5", "rping -c -v -C 5 -a ADDRESS", ("h0", "h0"))
        self.passes(self.fabric, "rping -s -C 5", "rping -c -v -C 5 -a 127.0.0.1", ("h0", "h0"))

    def test_rping_on_the_address_of_the_node(self):
        self.passes(self.fabric, f"rping -s -C 5 -a {self.fabric.addresses['h3']}", "rping -c -v -C 5 -a ADDRESS")

    def test_connections_of_other_programs(self):
        for server, client in (("ucmatose", "ucmatose -s ADDRESS"), ("ucmatose -c 20 -C 20", "ucmatose -c 20 -C 20 -s ADDRESS"),
                               ("ucmatose -P ib", "ucmatose -P ib -s ADDRESS")):
            with self.subTest(client):
                self.passes(self.fabric, server, client)

    def test_datagrams(self):
        for words in ("udaddy", "udaddy -c 5 -C 10"):  # its port is always this one
            listening = self.serve(self.fabric, "h3", words.split(), port=7174)
            self.finish(listening, self.fabric.start("h0", *words.split(), "-s", self.fabric.addresses["h3"]))

    def test_many_connections_at_once(self):
        listening = self.serve(self.fabric, "h3", ["cmtime", "-c", "100"])
        connecting = self.fabric.start("h0", "cmtime", "-c", "100", "-s", self.fabric.addresses["h3"],
                                       "-p", str(self.next_port))
        [output] = self.finish(connecting)
        self.assertRegex(output, r"resolve route:\s+\d")
        listening.end()  # it does not end by itself

    def test_perftest(self):
        for program in ("ib_write_bw", "ib_send_bw", "ib_read_lat", "ib_send_lat -c UD"):
            with self.subTest(program):
                server, client = self.passes(self.fabric, f"{program} -R -n 200", f"{program} -R -n 200 ADDRESS")
                self.assertRegex(client, r"rdma_cm QPs\s+: ON")
                self.assertRegex(client, r"Link type\s+: IB")

    def test_addresses_that_are_gids(self):
        gid = re.search(r"GID\[ *0\]:\s+(\S+)", self.fabric.run("h3", "ibv_devinfo", "-v").stdout)[1]
        self.passes(self.fabric, "ucmatose -f gid", f"ucmatose -f gid -s {gid}")
        own = re.search(r"GID\[ *0\]:\s+(\S+)", self.fabric.run("h0", "ibv_devinfo", "-v").stdout)[1]
        self.passes(self.fabric, f"ucmatose -f gid -b {gid}", f"ucmatose -f gid -b {own} -s {gid}")

    def test_an_unknown_address_is_unreachable(self):
        network = self.fabric.addresses["h0"].rsplit(".", 2)[0]
        for address in (f"{network}.0.77", "127.127.250.1", "192.0.2.1"):
            done = self.fabric.run("h0", "rping", "-c", "-a", address, "-C", "1")
            self.assertNotEqual(done.returncode, 0, address)
            self.assertRegex(done.stdout + done.stderr, r"RDMA_CM_EVENT_ADDR_ERROR, error -113")

    def test_a_service_that_no_program_has_is_refused(self):
        other = self.serve(self.fabric, "h3", ["rping", "-s"])
        done = self.fabric.run("h0", "rping", "-c", "-a", self.fabric.addresses["h3"], "-C", "1", "-p", "9")
        other.end()
        self.assertRegex(done.stdout + done.stderr, r"RDMA_CM_EVENT_REJECTED, error 8")

    def member(self, node, *words):
        """mckey, whose output comes line by line."""
        return self.fabric.start(node, "stdbuf", "-oL", "mckey", *words)

    def test_a_group_over_two_switches(self):
        for group in ("239.1.2.3", "ff02::7:8:9"):
            with self.subTest(group):
                members = [self.member(node, "-m", group, "-C", "3") for node in ("h2", "h3")]
                for member in members:
                    await_text(member, "joined dgid")
                time.sleep(0.3)  # the tables of the switches follow the join
                sender = self.member("h0", "-m", group, "-C", "3", "-s")
                outputs = self.finish(*members, sender)
                self.assertRegex(outputs[0], r"joined dgid: ff12:[46]001:ffff:.* mlid 0xc\w+ sl 0")
                self.assertIn("receiving data transfers", outputs[0])

    def test_a_membership_ends_with_the_last_program_of_the_port(self):
        killed, leaving = (self.member("h2", "-m", "239.9.9.9", "-C", "3") for _ in range(2))
        for member in (killed, leaving):
            await_text(member, "joined dgid")
        self.assertTrue(self.is_group())
        os.killpg(killed.child.pid, signal.SIGKILL)
        killed.child.wait()
        time.sleep(0.3)
        self.assertTrue(self.is_group(), "the other program is still a member")
        os.killpg(leaving.child.pid, signal.SIGKILL)
        leaving.child.wait()
        deadline = time.monotonic() + hosts.PATIENCE
        while self.is_group():
            self.assertLess(time.monotonic(), deadline, "the membership outlives its program")
            time.sleep(0.1)

    def is_group(self):
        """Whether OpenSM has the group, which it removes with the last port."""
        return "f09:909" in self.fabric.run("h1", "saquery", "-g").stdout

    def test_rsockets_are_refused(self):
        done = self.fabric.run("h0", "riostream", "-s", self.fabric.addresses["h3"])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, r"rsocket|not supported|Operation not supported")


class Failures(Connections, unittest.TestCase):
    def test_without_a_subnet_manager_there_is_no_route(self):
        made = subnet(self)
        self.passes(made, "rping -s -C 2", "rping -c -v -C 2 -a ADDRESS")
        os.killpg(made.opensm.child.pid, signal.SIGKILL)
        made.opensm.child.wait()
        begun = time.monotonic()
        done = made.run("h0", "rping", "-c", "-a", made.addresses["h3"], "-C", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, r"RDMA_CM_EVENT_ROUTE_ERROR, error -110")
        self.assertLess(time.monotonic() - begun, hosts.PATIENCE / 2)

    def test_a_stopped_subnet_manager_is_one_that_does_not_answer(self):
        made = subnet(self)
        os.killpg(made.opensm.child.pid, signal.SIGSTOP)
        done = made.run("h0", "rping", "-c", "-a", made.addresses["h3"], "-C", "1")
        self.assertRegex(done.stdout + done.stderr, r"RDMA_CM_EVENT_ROUTE_ERROR, error -110")
        os.killpg(made.opensm.child.pid, signal.SIGCONT)
        self.passes(made, "rping -s -C 2", "rping -c -v -C 2 -a ADDRESS")

    def test_a_stopped_program_stops_no_other_program_of_its_node(self):
        made = subnet(self)
        stopped = self.serve(made, "h3", ["rping", "-s"])
        os.killpg(stopped.child.pid, signal.SIGSTOP)
        self.passes(made, "rping -s -C 2", "rping -c -v -C 2 -a ADDRESS")
        os.killpg(stopped.child.pid, signal.SIGCONT)

    def test_the_peer_of_a_killed_program_is_disconnected_or_fails(self):
        made = subnet(self)
        listening = self.serve(made, "h3", ["rping", "-s"])
        connecting = made.start("h0", "rping", "-c", "-a", made.addresses["h3"], "-C", "100000000",
                                "-p", str(self.next_port))
        time.sleep(1)
        self.assertIsNone(connecting.child.poll(), connecting.output())
        os.killpg(listening.child.pid, signal.SIGKILL)
        self.assertIsNotNone(connecting.wait(time.monotonic() + hosts.PATIENCE), "the peer hangs")

    def test_the_end_of_the_fabric_removes_the_device(self):
        made = subnet(self)
        listening = self.serve(made, "h3", ["rping", "-s", "-a", made.addresses["h3"]])
        os.killpg(made.process.child.pid, signal.SIGKILL)
        made.process.child.wait()
        await_text(listening, "(?i)device removal")
        done = made.run("h0", "rping", "-c", "-a", made.addresses["h3"], "-C", "1")
        self.assertNotEqual(done.returncode, 0)

    def test_a_connection_survives_a_cut_link(self):
        made = subnet(self)
        listening = self.serve(made, "h3", ["rping", "-s"])
        connecting = made.start("h0", "rping", "-c", "-a", made.addresses["h3"], "-C", "2000", "-p", str(self.next_port))
        time.sleep(0.3)
        route = json.loads(made.tell("show", "route", "h0", "h3", "--json").stdout)
        made.tell("link", "down", route["steps"][1]["from"])
        self.finish(connecting)
        listening.end()


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    programs = ("opensm", "saquery", "rping", "ucmatose", "udaddy", "mckey", "cmtime", "ib_write_bw")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
