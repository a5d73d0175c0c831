#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two users' perftest side by side on one address, while processes of the user that came first, or of the
other, are killed or stopped; and the two users' programs with each other. Needs root, to become two users.

Usage: two_users_test.py --build build/release
"""
import os
import signal
import sys
import time
import unittest

from hosts import PATIENCE, Network, Process, run_tests

COMMAND = ""
FIRST, SECOND = 61001, 61002  # users; they need no names
SECONDS = 4  # that a stream takes
FOREVER = 3600  # seconds, for one that is ended


def start(host, user, program):
    return Process(["ip", "netns", "exec", host.name, "setpriv", f"--reuid={user}", f"--regid={user}",
                    "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all",
                    COMMAND, "run", "--devices", "e0", *program])


class Stream:
    """A server of one user on the shared host, and its client, on the other host unless said."""

    def __init__(self, test, user, port, program, client=None):
        self.test, self.port = test, port
        self.far_host, self.far_user = client or (test.network.client, user)
        self.program = [*program, "-p", str(port)]
        self.server = start(test.network.server, user, self.program)
        test.addCleanup(self.server.end)
        if not self.server.await_listening(port, time.monotonic() + PATIENCE):
            test.fail(self.server.output())
        self.client = start(self.far_host, self.far_user,
                            [*self.program, test.network.server.ipv4])
        test.addCleanup(self.client.end)

    def assert_runs(self):
        statuses = [end.child.poll() for end in (self.server, self.client)]
        self.test.assertEqual(statuses, [None, None],
                              f"--- server\n{self.server.output()}--- client\n{self.client.output()}")

    def assert_ends_well(self):
        deadline = time.monotonic() + PATIENCE
        for end in (self.client, self.server):
            self.test.assertEqual(end.wait(deadline), 0, end.output())


class TwoUsers(unittest.TestCase):
    def setUp(self):
        self.network = Network("two", 1500, COMMAND)
        self.addCleanup(self.network.remove)

    def stream(self, user, port, program="ib_write_bw", seconds=SECONDS):
        return Stream(self, user, port, [program, "-D", str(seconds), "-F"])

    def assert_one_user_has_the_port(self, count):
        """All sockets are the first user's, also those that the second one receives with."""
        users = []
        with open(f"/proc/{self.first.server.child.pid}/net/udp") as table:
            for line in table.readlines()[1:]:
                fields = line.split()
                if fields[1].endswith(":12B7"):
                    users.append(int(fields[7]))
        self.assertEqual(set(users), {FIRST})
        self.assertGreaterEqual(len(users), count)

    def both(self, seconds=SECONDS):
        """Streams of both users, the first one's without an end."""
        self.first = self.stream(FIRST, 7001, "ib_send_bw", FOREVER)
        self.second = self.stream(SECOND, 7002, "ib_write_bw", seconds)
        time.sleep(1)  # both are on their way
        self.assert_one_user_has_the_port(3)

    def test_side_by_side(self):
        self.both()
        self.stream(FIRST, 7003).assert_ends_well()
        self.second.assert_ends_well()
        self.first.assert_runs()

    def test_the_doctor_says_whose_the_port_is(self):
        self.stream(FIRST, 7001, seconds=FOREVER)
        doctor = start(self.network.server, SECOND, [COMMAND, "doctor"])
        self.addCleanup(doctor.end)
        doctor.wait(time.monotonic() + PATIENCE)
        self.assertIn(f"lent by user {FIRST}", doctor.output())

    def test_all_operations_of_the_second_user(self):
        holder = self.stream(FIRST, 7001, seconds=FOREVER)
        # Beside the holder's stream packets are lost. A program that counts what arrives by an
        # unreliable connection, as ib_send_bw does, then waits for ever.
        programs = (["ib_send_lat"], ["ib_read_bw"], ["ib_read_lat"], ["ib_atomic_bw"],
                    ["ib_write_bw", "-c", "UC"], ["ib_send_lat", "-c", "UD"],
                    ["ib_write_bw", "-q", "8", "-b"])
        for number, program in enumerate(programs):
            with self.subTest(program=program):
                Stream(self, SECOND, 7100 + number,
                       [*program, "-n", "1000", "-F"]).assert_ends_well()
        holder.assert_runs()

    def test_the_holder_is_killed(self):
        self.both()
        self.first.server.child.send_signal(signal.SIGKILL)
        self.first.server.child.wait()
        another = self.stream(SECOND, 7003, "ib_send_bw")
        self.second.assert_ends_well()
        another.assert_ends_well()

    def test_the_holder_is_stopped(self):
        self.both(FOREVER)
        self.first.server.child.send_signal(signal.SIGSTOP)
        self.stream(SECOND, 7003, "ib_send_bw").assert_ends_well()
        self.second.assert_runs()

    def test_the_second_user_is_killed(self):
        self.both(FOREVER)
        another = self.stream(FIRST, 7003)
        for end in (self.second.server, self.second.client):
            end.child.send_signal(signal.SIGKILL)
            end.child.wait()
        another.assert_ends_well()
        self.first.assert_runs()
        self.stream(SECOND, 7004).assert_ends_well()  # and may come again

    def test_with_each_other(self):
        """At one address, by packets through the loopback device."""
        here = (self.network.server, SECOND)
        for number, program in enumerate((["ib_send_bw"], ["ib_write_bw"], ["ib_read_lat"],
                                          ["ib_send_lat", "-c", "UD"], ["ib_atomic_lat"])):
            with self.subTest(program=program):
                Stream(self, FIRST, 7200 + number, [*program, "-n", "1000", "-F"],
                       here).assert_ends_well()

    def assert_connects(self, server_user, client_host, client_user, port):
        server = start(self.network.server, server_user,
                       ["rping", "-s", "-P", "-a", self.network.server.ipv4, "-p", str(port)])
        self.addCleanup(server.end)
        self.assertTrue(server.await_listening(port, time.monotonic() + PATIENCE), server.output())
        client = start(client_host, client_user,
                       ["rping", "-c", "-V", "-C", "20", "-a", self.network.server.ipv4,
                        "-p", str(port)])
        self.addCleanup(client.end)
        self.assertEqual(client.wait(time.monotonic() + PATIENCE), 0,
                         client.output() + server.output())
        return server

    def test_connections_are_requested(self):
        """By rdma_cm: a request names a port, and no process."""
        here, there = self.network.server, self.network.client
        holder = self.assert_connects(FIRST, there, FIRST, 7301)
        borrower = self.assert_connects(SECOND, there, FIRST, 7302)
        self.assert_connects(SECOND, here, FIRST, 7303)
        self.assert_connects(FIRST, here, SECOND, 7304)
        self.assertIsNone(holder.child.poll(), holder.output())
        self.assertIsNone(borrower.child.poll(), borrower.output())


def main():
    def use(installation):
        global COMMAND
        COMMAND = installation.command

    obstacle = "" if os.geteuid() == 0 else "becoming two users, and making network namespaces, needs root"
    return run_tests(__doc__, obstacle, use)


if __name__ == "__main__":
    sys.exit(main())
