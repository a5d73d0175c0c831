#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`verbatim stat` beside programs that run, stop, end and lie. Needs root for network namespaces;
the programs and the command run as an ordinary user.

Usage: stat_test.py --build build/release
"""
import argparse
import array
import ctypes
import fcntl
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import hosts

BUILD = ""
OTHER_USER = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "--no-new-privs",
              "--inh-caps=-all", "--bounding-set=-all"]
PORT = 18591
HEADER = pathlib.Path(__file__).resolve().parents[2] / "src/host/segment_header.h"
MAGIC = 0x56425347  # of a segment
VERSION = int(re.search(r"kVersion = (\d+)", HEADER.read_text()).group(1))
ATTACH_MAGIC = 0x56424131
CHALLENGE_MAGIC = 0x56424332
HEADER_OCTETS = 2048
DIRECT = {"VERBATIM_PATH": "auto"}
PACKETS = {"VERBATIM_PATH": "packet"}


class World(unittest.TestCase):
    def setUp(self):
        self.installation = hosts.Installation(BUILD)
        self.addCleanup(self.installation.remove)
        self.network = hosts.Network("one", 1500, self.installation.command)
        self.addCleanup(self.network.remove)
        self.host = self.network.server
        self.index = str(self.host.gid_indices()[self.host.ipv4])

    def stat(self, *words, user=None):
        """What the command prints; it must end well, and soon."""
        done = subprocess.run(["ip", "netns", "exec", self.host.name]
                              + (hosts.NOBODY if user is None else user)
                              + [self.installation.command, "stat", *words],
                              capture_output=True, text=True, timeout=hosts.PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def processes(self):
        return json.loads(self.stat("--json"))["processes"]

    def start_pair(self, environment, *options):
        """Two programs that write for ever, the second to the first."""
        words = ["ib_write_bw", "-d", "vb0", "-x", self.index, "-p", str(PORT),
                 "--run_infinitely", *options]
        server = self.host.start(words, environment)
        self.addCleanup(server.end)
        self.assertTrue(server.await_listening(PORT, time.monotonic() + hosts.PATIENCE),
                        server.output())
        client = self.host.start(words + [self.host.ipv4], environment)
        self.addCleanup(client.end)
        return server, client

    def await_view(self, fits):
        """The first look that fits; the last one when none does."""
        deadline = time.monotonic() + hosts.PATIENCE
        while True:
            view = self.processes()
            if fits(view) or time.monotonic() > deadline:
                self.assertTrue(fits(view), json.dumps(view, indent=1))
                return view
            time.sleep(0.05)

    def await_traffic(self, queue_pairs=1):
        def flows(view):
            shown = [p for p in view if p["state"] == "running"]
            return len(shown) == 2 and all(
                len(p["queue_pairs"]) == queue_pairs for p in shown) and any(
                qp["out"]["messages_per_second"] > 0 for p in shown for qp in p["queue_pairs"])
        view = self.await_view(flows)
        # The process that writes, and its target.
        return sorted(view, key=lambda p: -p["queue_pairs"][0]["out"]["messages"])


class NoProcess(World):
    def test_without_processes_it_says_so_and_what_to_do(self):
        text = self.stat()
        self.assertIn("No process of nobody (uid 65534)", text)
        self.assertIn("verbatim run", text)
        self.assertEqual(json.loads(self.stat("--json")), {"uid": 65534, "processes": []})


class Traffic(World):
    def check_pair(self, path):
        writer, target = self.await_traffic()
        for process, other in ((writer, target), (target, writer)):
            self.assertEqual(process["program"], "ib_write_bw")
            self.assertEqual((process["device"], process["interface"]), ("vb0", "e0"))
            self.assertGreaterEqual(process["completion_queues"], 1)
            self.assertEqual(process["memory"]["regions"], 1)
            self.assertGreater(process["open_seconds"], 0)
            [qp], [far] = process["queue_pairs"], other["queue_pairs"]
            self.assertEqual((qp["type"], qp["path"]), ("RC", path))
            self.assertIn(qp["state"], ("RTS",) if process is writer else ("RTR", "RTS"))
            self.assertEqual((qp["local"], qp["remote"]), (self.host.ipv4, self.host.ipv4))
            self.assertEqual(qp["peer"], {"number": far["number"], "pid": other["pid"]})
            self.assertEqual(qp["dest_qp"], far["number"])
            with open(f"/proc/{process['pid']}/comm") as name:
                self.assertEqual(name.read(), "ib_write_bw\n")
        self.assertEqual(target["queue_pairs"][0]["out"]["messages"], 0)
        return writer, target

    def check_growth(self, writer):
        """What one has written the other was written to, and it goes on."""
        out = writer["queue_pairs"][0]["out"]
        # The program's messages have 64 KiB; the two words are not of one instant.
        self.assertAlmostEqual(out["octets"], out["messages"] * 65536, delta=65536)
        later_writer, later_target = self.await_traffic()
        self.assertEqual(later_writer["pid"], writer["pid"])
        self.assertGreater(later_writer["queue_pairs"][0]["out"]["messages"], out["messages"])
        self.assertGreater(later_target["queue_pairs"][0]["in"]["messages"], 0)
        self.assertGreater(later_target["queue_pairs"][0]["in"]["octets_per_second"], 0)

    def test_a_direct_connection_is_seen_from_both_ends(self):
        self.start_pair(DIRECT)
        writer, target = self.check_pair("direct")
        self.assertEqual(writer["queue_pairs"][0]["sends"], "direct")
        self.assertEqual(target["queue_pairs"][0]["receives"], "direct")
        self.assertEqual(writer["queue_pairs"][0]["packets"], 0)
        self.assertGreater(target["memory"]["shared_octets"], 0)
        self.check_growth(writer)
        text = self.stat()
        self.assertIn(f"pid {writer['pid']}", text)
        self.assertIn("direct", text)
        self.assertNotIn("\033", text)

    def test_a_connection_through_packets_is_seen_as_one(self):
        self.start_pair(PACKETS)
        writer, target = self.check_pair("packets")
        self.assertGreater(writer["queue_pairs"][0]["packets"], 0)
        self.assertEqual((writer["path"], writer["path_cause"]), ("packet", "VERBATIM_PATH"))
        self.assertEqual(target["memory"]["shared_octets"], 0)
        self.check_growth(writer)
        self.assertIn("VERBATIM_PATH=packet", self.stat())

    def test_of_many_queue_pairs_the_busiest_are_shown(self):
        self.start_pair(DIRECT, "-q", "48")
        self.await_traffic(queue_pairs=48)
        count = lambda text: sum(line.startswith("  0x") for line in text.splitlines())
        text = self.stat()
        self.assertEqual(count(text), 2 * 20)
        self.assertIn("and 28 more", text)
        self.assertEqual(count(self.stat("--all")), 2 * 48)


class Others(World):
    def test_other_users_see_nothing(self):
        self.start_pair(DIRECT)
        self.await_traffic()
        for user in (OTHER_USER, []):  # root, too, is another user
            self.assertEqual(json.loads(self.stat("--json", user=user))["processes"], [])


class Disturbed(World):
    def test_a_stopped_process_is_listed_and_does_not_delay_the_view(self):
        server, client = self.start_pair(DIRECT)
        writer, target = self.await_traffic()
        os.kill(target["pid"], signal.SIGSTOP)
        try:
            view = {p["pid"]: p for p in self.processes()}
            self.assertEqual(view[target["pid"]]["state"], "silent")
            self.assertEqual(view[target["pid"]]["program"], "ib_write_bw")
            self.assertEqual(view[writer["pid"]]["state"], "running")
            self.assertIn("does not answer", self.stat())
        finally:
            os.kill(target["pid"], signal.SIGCONT)
        self.await_traffic()

    def test_it_outlives_those_it_shows(self):
        for _ in range(2):
            server, client = self.start_pair(DIRECT)
            self.await_traffic()
            view = subprocess.Popen(["ip", "netns", "exec", self.host.name] + hosts.NOBODY
                                    + [self.installation.command, "stat", "--watch"],
                                    stdout=subprocess.PIPE, text=True)
            try:
                while "pid" not in view.stdout.readline():
                    self.assertIsNone(view.poll())
                client.end()
                server.end()
                while "No process" not in view.stdout.readline():
                    self.assertIsNone(view.poll())
            finally:
                view.kill()
                view.communicate()

    def test_those_it_looks_at_end_as_if_it_were_not_there(self):
        words = ["ib_write_bw", "-d", "vb0", "-x", self.index, "-p", str(PORT), "-D", "2"]
        server = self.host.start(words, DIRECT)
        self.addCleanup(server.end)
        self.assertTrue(server.await_listening(PORT, time.monotonic() + hosts.PATIENCE))
        client = self.host.start(words + [self.host.ipv4], DIRECT)
        self.addCleanup(client.end)
        while client.child.poll() is None:
            self.stat("--json")
        for process in (client, server):
            self.assertEqual(process.wait(time.monotonic() + hosts.PATIENCE), 0, process.output())


def runtime_folder():
    """Where the processes of this user in this network namespace find each other."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        cookie = struct.unpack("Q", probe.getsockopt(socket.SOL_SOCKET, 71, 8))[0]  # SO_NETNS_COOKIE
    name = f"/tmp/.verbatim-{os.geteuid()}"
    os.makedirs(name, mode=0o700, exist_ok=True)
    # Another user may have made that one first.
    own = [each for each in [name, *glob.glob(name + "-*")] if os.stat(each).st_uid == os.geteuid()]
    folder = f"{own[0]}/net-{cookie:x}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def bind_anew(end, path):
    if os.path.exists(path):
        os.unlink(path)
    end.bind(path)


class Liars(World):
    """A process of the same user that shows things which are not so."""

    def lie(self, content, octets):
        """Has slot 0 in the namespace and answers every viewer with this segment."""
        into, back = socket.socketpair()
        child = os.fork()
        if child == 0:
            try:
                into.close()
                self.be_a_liar(back, content, octets)
            finally:
                os._exit(0)
        back.close()
        self.addCleanup(into.close)
        into.recv(1)
        return child

    def be_a_liar(self, ready, content, octets):
        with open(f"/run/netns/{self.host.name}") as namespace:
            libc_setns(namespace.fileno())
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, which setresuid(2) took away
        folder = runtime_folder()
        mailbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bind_anew(mailbox, f"{folder}/0")
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        bind_anew(door, f"{folder}/0.attach")
        door.listen(8)
        secret = os.memfd_create("verbatim-challenge-" + 32 * "0")
        segment = os.memfd_create("liar", os.MFD_ALLOW_SEALING)
        os.ftruncate(segment, octets)
        os.pwrite(segment, content, 0)
        fcntl.fcntl(segment, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
        ready.send(b"!")
        while True:
            connection, _ = door.accept()
            connection.recv(64)
            # It keeps its secret where the viewer may read it, and does not check the answer.
            connection.send(struct.pack("<Ii", CHALLENGE_MAGIC, secret))
            connection.recv(64)
            answer = struct.pack("<IIII", ATTACH_MAGIC, VERSION, 0, 1)
            connection.sendmsg([answer], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                      array.array("i", [segment]))])
            kept.append(connection)

    def check(self, content, octets):
        child = self.lie(content, octets)
        try:
            view = self.processes()
            self.assertEqual(len(view), 1)
            self.assertIn(view[0]["state"], ("running", "hidden"))
            for option in ([], ["--all"]):
                self.assertIn(f"pid {child}", self.stat(*option))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return view[0]

    def test_nonsense_is_shown_as_nothing(self):
        self.assertEqual(self.check(b"", 1)["state"], "hidden")
        self.assertEqual(self.check(b"", 1 << 20)["state"], "hidden")
        self.assertEqual(self.check(b"\xff" * HEADER_OCTETS, 1 << 20)["state"], "hidden")

    def test_places_outside_are_not_looked_at(self):
        rng = random.Random(7)
        wild = [0, 1, 64, 4096, (1 << 20) - 64, 1 << 20, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
        for _ in range(12):
            places = [rng.choice(wild) for _ in range(5)]
            counts = [rng.choice([0, 1, 65535, 65536, 0xffffffff]) for _ in range(3)]
            content = struct.pack("<IIQQQQQQ", MAGIC, VERSION, 1 << 20, *places)
            content += struct.pack("<IIIIII", *counts, 0, 0, 0xffffffff)
            content += rng.randbytes(HEADER_OCTETS - len(content))
            self.check(content, 1 << 20)

    def test_random_content_is_shown_without_control_characters(self):
        rng = random.Random(11)
        content = struct.pack("<IIQQQQQQ", MAGIC, VERSION, 1 << 20, 65536, 65536, 0, 131072, 4096)
        content += struct.pack("<IIIIII", 1024, 1, 1024, 0, 0, 64)
        content += rng.randbytes((1 << 20) - len(content))
        # Some of the queue pairs are in their places.
        records = bytearray(content)
        for index in range(1, 1024, 3):
            struct.pack_into("<I", records, 131072 + index * 128, index)
        view = self.check(bytes(records), 1 << 20)
        self.assertEqual(view["state"], "running")
        self.assertGreater(len(view["queue_pairs"]), 300)
        self.assertTrue(all(" " <= c <= "~" for c in view["device"] + view["interface"]))


kept = []


def libc_setns(descriptor):
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    arguments, rest = parser.parse_known_args()
    BUILD = os.path.abspath(arguments.build)
    if os.geteuid() != 0 or not shutil.which("ib_write_bw"):
        print("skipped: needs root for network namespaces, and perftest")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2, warnings="ignore")
