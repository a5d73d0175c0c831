#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that listen at all addresses, while addresses of their host come and go; and what
`verbatim devices` says of the addresses. Needs root.

Usage: addresses_test.py --build build/release
"""
import json
import os
import sys
import time
import unittest

from hosts import PATIENCE, Network, run_tests, sh

COMMAND = ""
LATE = "10.77.0.9"  # an address that the server's host gets while the servers run
PORTS = (7001, 7002, 7003)


class Addresses(unittest.TestCase):
    """Several rping servers in one namespace, so that several processes share each address."""

    def setUp(self):
        self.network = Network("two", 1500, COMMAND)
        self.addCleanup(self.network.remove)
        self.servers = [self.serve(port) for port in PORTS]

    def serve(self, port):
        server = self.network.server.start(["rping", "-s", "-P", "-a", "0.0.0.0", "-p", str(port)])
        self.addCleanup(server.end)
        self.assertTrue(server.await_listening(port, time.monotonic() + PATIENCE), server.output())
        return server

    def change(self, verb):
        sh("ip", "-n", self.network.server.name, "addr", verb, f"{LATE}/24", "dev", "e0")

    def assert_reached(self, host, port):
        """Servers hear of an address a moment after it is there: one that is not is tried again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            client = host.start(["rping", "-c", "-V", "-C", "20", "-a", LATE, "-p", str(port)])
            status, output = client.wait(deadline), client.output()
            client.end()
            if status == 0 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.assertEqual(status, 0, output)

    def test_every_server_is_reached_at_an_address_that_comes(self):
        self.change("add")
        for port in PORTS:
            for host in self.network.hosts:
                self.assert_reached(host, port)
        self.assertEqual([server.child.poll() for server in self.servers], [None] * len(PORTS))

    def test_an_address_may_go_and_come_back(self):
        self.change("add")
        self.assert_reached(self.network.client, PORTS[1])
        self.change("del")
        self.change("add")
        self.assert_reached(self.network.client, PORTS[1])

    def test_who_comes_later_shares_the_new_address(self):
        self.change("add")
        self.assert_reached(self.network.client, PORTS[0])
        self.serve(7009)
        self.assert_reached(self.network.client, 7009)
        self.assert_reached(self.network.client, PORTS[2])


class Devices(unittest.TestCase):
    """The first GID is made of the MAC: it has packets where the interface has that address."""

    def setUp(self):
        self.network = Network("two", 1500, COMMAND)
        self.addCleanup(self.network.remove)

    def devices(self, *options):
        return sh("ip", "netns", "exec", self.network.server.name, "env", "VERBATIM_DEVICES=e0",
                  COMMAND, "devices", *options)

    def packets(self):
        [device] = json.loads(self.devices("--json"))
        return [gid["packets"] for gid in device["gids"]]

    def test_every_gid_that_is_an_address_has_packets(self):
        deadline = time.monotonic() + PATIENCE
        while not all(self.packets()) and time.monotonic() < deadline:
            time.sleep(0.1)  # link-local addresses come a moment after the carrier
        self.assertEqual(self.packets(), [True] * 3)
        self.assertNotIn("no packets", self.devices())

    def test_without_ipv6_the_first_one_has_none(self):
        sh("ip", "netns", "exec", self.network.server.name, "sh", "-c",
           "echo 1 >/proc/sys/net/ipv6/conf/e0/disable_ipv6")
        self.assertEqual(self.packets(), [False, True])
        self.assertIn("no packets: e0 does not have this address; use GID index 1", self.devices())


def main():
    def use(installation):
        global COMMAND
        COMMAND = installation.command

    obstacle = "" if os.geteuid() == 0 else "making network namespaces needs root"
    return run_tests(__doc__, obstacle, use)


if __name__ == "__main__":
    sys.exit(main())
