#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Captures and faults of the links of a fabric, judged by others: tshark reads the files and finds nothing malformed,
ICRCs and VCRCs computed bit by bit from the specification agree with every packet, the counters of the ports say
what the files hold, and what a fault has damaged is what tshark's reader finds damaged. Needs root, to become an
ordinary user.

Usage: fabric_capture_test.py --build build/release [Captures.test_a_capture_ends_after_its_number_of_packets ...]
"""
import collections
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import hosts
from fabric_data_test import Pairs
from fabrics import TREE, Fabric

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "independent"))
import ibcrc  # noqa: E402

INSTALLATION = None
LINK_TYPE_ERF = 197  # each packet behind a header of 16 octets, which says that it is a native one
ERF_HEAD, ERF_INFINIBAND = 16, 21
IN, OUT = 1, 2
PINGPONG = ("ibv_rc_pingpong", "-n", "5", "-s", "3001", "-c")
# tshark would guess that payloads are of other protocols, and find these malformed.
NO_GUESSES = ("--disable-protocol", "rpcordma")
FIELDS = ("_ws.malformed", "infiniband.lrh.vl", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.bth.opcode",
          "infiniband.mad.mgmtclass", "infiniband.grh")
Dissected = collections.namedtuple("Dissected", "malformed lane source destination opcode mad_class global_route")


def blocks_of(octets):
    at = 0
    while at + 12 <= len(octets):
        kind, length = struct.unpack_from(">II", octets, at)
        if length < 12 or at + length > len(octets):
            return
        yield kind, octets[at + 8:at + length - 4]
        at += length


class File:
    """A pcapng file that a fabric, or a program on it, has written."""

    def __init__(self, path):
        with open(path, "rb") as file:
            blocks = list(blocks_of(file.read()))
        self.link_types = [struct.unpack_from(">H", body)[0] for kind, body in blocks if kind == 1]
        self.packets = []  # direction and octets
        for kind, body in blocks:
            if kind != 6:
                continue
            length, = struct.unpack_from(">I", body, 12)
            options = 20 + (length + 3) // 4 * 4
            code, _, flags = struct.unpack_from(">HHI", body, options)
            assert body[20 + 8] == ERF_INFINIBAND
            self.packets.append((flags if code == 2 else 0, body[20 + ERF_HEAD:20 + length]))
        text = subprocess.run(["tshark", "-r", path, *NO_GUESSES, "-T", "fields", *(word for field in FIELDS for word in ("-e", field))],
                              capture_output=True, text=True, check=True).stdout
        self.dissected = [Dissected(*line.split("\t")) for line in text.splitlines()]

    def count(self, direction):
        return sum(1 for one, _ in self.packets if one == direction)

    def damaged(self):
        """Packets whose VCRC is wrong."""
        return [octets for _, octets in self.packets if ibcrc.vcrc_bytes(octets[:-2]) != octets[-2:]]


def has_right_icrc(octets):
    """Of a packet from the LRH to the VCRC."""
    lrh, rest = octets[:8], octets[8:-2]
    if lrh[1] & 3 == 3:
        grh, rest = rest[:40], rest[40:]
        return ibcrc.icrc_ib_global(lrh, grh, rest[:-4]) == rest[-4:]
    return ibcrc.icrc_ib_local(lrh, rest[:-4]) == rest[-4:]


class Fabrics(Pairs):
    def subnet(self, *options, capture=None):
        """A tree that OpenSM has brought up. `capture`: a port and a file, from the first packet on."""
        made = Fabric(INSTALLATION, TREE, [*options, *(["--capture", f"{capture[0]}={capture[1]}"] if capture else [])])
        self.addCleanup(made.end)
        made.await_up()
        made.start_opensm()
        return made.await_active()

    def judge(self, file):
        """Whether each packet is one of the wire."""
        self.assertEqual(file.link_types, [LINK_TYPE_ERF])
        self.assertGreater(len(file.packets), 0)
        self.assertEqual(len(file.packets), len(file.dissected))
        self.assertEqual([one for one in file.dissected if one.malformed], [])
        self.assertEqual(file.damaged(), [])
        self.assertEqual([octets for _, octets in file.packets if not has_right_icrc(octets)], [])

    def start_capture(self, made, *words):
        """`verbatim fabric capture`, once it has begun."""
        process = made._start([made.command, "fabric", "capture", "--fabric", made.name, *words])
        deadline = time.monotonic() + hosts.PATIENCE
        while "capturing" not in process.output():
            self.assertIsNone(process.child.poll(), process.output())
            self.assertLess(time.monotonic(), deadline, process.output())
            time.sleep(0.02)
        return process

    def path(self, made, name="link.pcapng"):
        return os.path.join(made.folder, name)

    def counters(self, made, port):
        node, number = re.fullmatch(r"(\w+)\[(\d+)\]", port).groups()
        return next(one["counters"] for one in made.ports() if one["node"] == node and one["port"] == int(number))


class Captures(Fabrics, unittest.TestCase):
    def test_all_that_passes_a_port_from_the_first_datagram_on(self):
        made = self.subnet(capture=("h0[1]", "link.pcapng"))
        self.passes(made, *PINGPONG)
        self.passes(made, *PINGPONG, "-g", "0")
        self.assertIn("NodeRecord", made.run("h0", "saquery", "NodeRecord").stdout)
        made.tell("capture", "stop", "h0")
        sent = self.counters(made, "h0[1]")
        file = File(self.path(made))
        self.judge(file)
        self.assertEqual((file.count(OUT), file.count(IN)), (sent["sent_packets"], sent["received_packets"]))
        lanes = {bool(int(one.lane, 0) == 15) for one in file.dissected if one.mad_class in ("0x01", "0x81")}
        self.assertEqual(lanes, {True}, "subnet management is on lane 15")
        others = {int(one.lane, 0) for one in file.dissected if one.mad_class not in ("0x01", "0x81")}
        self.assertEqual(others, {0})
        self.assertIn("0x03", {one.mad_class for one in file.dissected}, "datagrams of queue pair 1")
        data = [one for one in file.dissected if not one.mad_class]
        lid = str(made.lid_of("h0"))
        self.assertTrue(all(lid in (one.source, one.destination) for one in data))
        self.assertEqual({bool(one.global_route) for one in data}, {False, True})

    def test_a_capture_ends_after_its_number_of_packets(self):
        made = self.subnet()
        capturing = self.start_capture(made, "h0", "link.pcapng", "--count", "7")
        self.passes(made, *PINGPONG)
        self.assertEqual(capturing.wait(time.monotonic() + hosts.PATIENCE), 0, capturing.output())
        self.assertIn(f"h0[1]: 7 packets in '{self.path(made)}'", capturing.output())
        file = File(self.path(made))
        self.judge(file)
        self.assertEqual(len(file.packets), 7)

    def test_a_capture_ends_after_its_time_and_when_its_command_ends(self):
        made = self.subnet()
        self.assertIn("0 packets", made.tell("capture", "leaf1[3]", self.path(made, "a.pcapng"), "--for", "0.1").stdout)
        capturing = self.start_capture(made, "leaf1[3]", "b.pcapng")
        shown = json.loads(made.tell("show", "captures", "--json").stdout)
        self.assertEqual([(one["port"], one["file"]) for one in shown], [("leaf1[3]", self.path(made, "b.pcapng"))])
        refused = made.tell("capture", "leaf1[3]", self.path(made, "c.pcapng"), check=False)
        self.assertIn("leaf1[3] is being captured", refused.stderr)
        os.killpg(capturing.child.pid, signal.SIGINT)
        self.assertEqual(capturing.wait(time.monotonic() + hosts.PATIENCE), 0, capturing.output())
        self.assertIn("packets in", capturing.output())
        capturing = self.start_capture(made, "leaf1[3]", "d.pcapng")
        os.killpg(capturing.child.pid, signal.SIGKILL)
        capturing.child.wait()
        deadline = time.monotonic() + hosts.PATIENCE
        while json.loads(made.tell("show", "captures", "--json").stdout):
            self.assertLess(time.monotonic(), deadline, "the capture goes on without its command")
            time.sleep(0.05)

    def test_a_full_disk_ends_the_capture_and_not_the_fabric(self):
        made = self.subnet()
        disk = os.path.join(made.folder, "disk")
        os.mkdir(disk)
        hosts.sh("mount", "-t", "tmpfs", "-o", "size=256k,mode=777", "none", disk)
        self.addCleanup(hosts.sh, "umount", disk, check=False)
        capturing = self.start_capture(made, "h0", os.path.join(disk, "link.pcapng"))
        self.passes(made, "ibv_rc_pingpong", "-n", "100", "-s", "100000")
        self.assertEqual(capturing.wait(time.monotonic() + hosts.PATIENCE), 1, capturing.output())
        self.assertIn("No space left on device", capturing.output())
        self.passes(made, *PINGPONG)
        done = subprocess.run(["tshark", "-r", os.path.join(disk, "link.pcapng")], capture_output=True, text=True)
        self.assertNotIn("cut short", done.stderr)

    def test_a_program_captures_its_own_packets(self):
        made = self.subnet()
        listening = made.start("h3", *PINGPONG, "-p", "18990", "-g", "0")
        self.assertTrue(listening.await_listening(18990, time.monotonic() + hosts.PATIENCE), listening.output())
        done = subprocess.run(hosts.NOBODY + [made.command, "run", "--fabric", made.name, "--node", "h0",
                                              "--capture", "own.pcapng", "--faults", "out duplicate every=3", *PINGPONG,
                                              "-p", "18990", "-g", "0", "127.0.0.1"], cwd=made.folder, capture_output=True,
                              text=True, timeout=hosts.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(listening.wait(time.monotonic() + hosts.PATIENCE), 0, listening.output())
        file = File(self.path(made, "own.pcapng"))
        self.judge(file)
        sent = collections.Counter(octets for direction, octets in file.packets if direction == OUT)
        self.assertGreater(max(sent.values()), 1, "the copies have left, too")


class Faults(Fabrics, unittest.TestCase):
    def test_damaged_packets_are_counted_captured_and_sent_again(self):
        made = self.subnet("--seed", "7")
        capturing = self.start_capture(made, "h0", "link.pcapng")
        before = made.run("h0", "perfquery", "-x")
        self.assertEqual(before.returncode, 0, before.stderr)
        made.tell("link", "faults", "h0", "in corrupt opcode=RC_* first=9 every=3; out drop first=1 opcode=RC_SEND_MIDDLE")
        self.passes(made, *PINGPONG)
        os.killpg(capturing.child.pid, signal.SIGINT)
        self.assertEqual(capturing.wait(time.monotonic() + hosts.PATIENCE), 0, capturing.output())
        [shown] = json.loads(made.tell("show", "faults", "--json").stdout)
        file = File(self.path(made))
        damaged = file.damaged()
        self.assertEqual(len(damaged), 3)
        self.assertEqual(len(damaged), shown["in"]["damaged"])
        self.assertEqual(shown["out"]["dropped"], 1)
        drops = json.loads(made.tell("show", "drops", "--json").stdout)["counts"]
        self.assertEqual(drops["damaged on purpose"], len(damaged))
        self.assertEqual(drops["loss on purpose"], 1)
        errors = re.search(r"PortRcvErrors:\.*(\d+)", made.run("h0", "perfquery").stdout)
        self.assertEqual(int(errors.group(1)), len(damaged))
        self.assertEqual([octets for octets in damaged if not has_right_icrc(octets)], [], "only the VCRC is wrong")

    def test_a_file_of_faults_and_its_mistakes(self):
        rules = os.path.join(INSTALLATION.folder, f"faults-{os.getpid()}")
        with open(rules, "w") as file:
            file.write("# a long cable\nlink leaf0[1] both delay 100us\nlink h3 out drop 1%\n")
        os.chmod(rules, 0o644)
        made = self.subnet("--faults", rules)
        self.passes(made, *PINGPONG)
        shown = json.loads(made.tell("show", "faults", "--json").stdout)
        self.assertEqual([one["port"] for one in shown], ["leaf0[1]", "h3[1]"])
        self.assertGreater(shown[0]["in"]["delayed"], 0)
        with open(rules, "a") as file:
            file.write("link h2 out reorder\n")
        done = subprocess.run(hosts.NOBODY + [made.command, "fabric", "up", "refused", *TREE, "--faults", rules],
                              capture_output=True, text=True, timeout=hosts.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{rules}:4: a link keeps the order of its packets", done.stderr)


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    programs = ("opensm", "saquery", "perfquery", "ibv_rc_pingpong", "tshark")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
