#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `verbatim run --capture` writes, judged by others: tshark reads it and finds nothing
malformed, an ICRC computed bit by bit from the specification agrees with every packet, and it holds
what tshark saw on the wire, packet by packet.

Usage: own_capture_test.py --build build/release
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import collections
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import capture
from hosts import Network, Process, run_tests, sh

PATIENCE = 60.0
INSTALLATION = None
# Their options for GID index and port differ.
LONG = "ibv_rc_pingpong -d vb0 -g {gid} -p {port} -n 5 -s 30001 -c"
PROGRAMS = (LONG, "ib_write_bw -d vb0 -x {gid} -p {port} -n 5 -s 65536",
            "ibv_ud_pingpong -d vb0 -g {gid} -p {port} -n 5 -s 1001 -c")
IN, OUT = "1", "2"  # epb_flags


FIELDS = {"number": "frame.number", "malformed": "_ws.malformed", "opcode": "infiniband.bth.opcode",
          "direction": "frame.packet_flags_direction", "source4": "ip.src", "source6": "ipv6.src",
          "identification": "ip.id", "payload": "udp.payload"}
Packet = collections.namedtuple("Packet", FIELDS)


def packets_of(path):
    """What tshark says of each packet. It takes half a second to start, so a file is read once."""
    words = ["tshark", "-r", path, "-Y", "udp.port == 4791", "-T", "fields"]
    for field in FIELDS.values():
        words += ["-e", field]
    return [Packet(*line.split("\t")) for line in sh(*words).splitlines()]


def counted(packets, direction=""):
    """How often each pair of IPv4 identification and UDP payload is there."""
    return collections.Counter((packet.identification, packet.payload) for packet in packets
                               if not direction or is_on_way(packet, direction))


def is_on_way(packet, direction):
    return bool(packet.direction) and str(int(packet.direction, 0)) == direction


def size_of(path):
    """0 while it is not there yet."""
    return os.path.getsize(path) if os.path.exists(path) else 0


class Capture:
    """A file that a program of Verbatim has written."""

    def __init__(self, path):
        self.path = path
        self.packets = packets_of(path)


class OwnCapture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network("two", 1500, INSTALLATION.command)
        for host in cls.network.hosts:  # trains are cut before the interface, so tshark sees packets
            sh("ip", "-n", host.name, "link", "set", "e0", "gso_max_segs", "1")

    @classmethod
    def tearDownClass(cls):
        cls.network.remove()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="verbatim-capture-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o777)
        self.addCleanup(self.forget, "VERBATIM_CAPTURE", "VERBATIM_GSO", "VERBATIM_FAULTS")

    def forget(self, *names):
        for name in names:
            os.environ.pop(name, None)

    def gid(self, family):
        server = self.network.server
        return server.gid_indices()[getattr(server, family)]

    def start(self, host, program):
        process = host.start(program.split())
        self.addCleanup(process.log.close)
        self.addCleanup(process.end)
        return process

    def run_pair(self, pattern, family, port):
        """The captures of server and client."""
        os.environ["VERBATIM_CAPTURE"] = os.path.join(self.folder, "%p.pcapng")
        for old in glob.glob(os.path.join(self.folder, "*.pcapng")):
            os.remove(old)
        program = pattern.format(gid=self.gid(family), port=port)
        server = self.start(self.network.server, program)
        self.assertTrue(server.await_listening(port, time.monotonic() + PATIENCE), server.output())
        client = self.start(self.network.client, f"{program} {self.network.server.ipv4}")
        for process in (client, server):
            self.assertEqual(process.wait(time.monotonic() + PATIENCE), 0, process.output())
        files = glob.glob(os.path.join(self.folder, "*.pcapng"))
        self.assertEqual(len(files), 2, files)
        captures = [Capture(path) for path in files]
        first = next(packet for packet in captures[0].packets if is_on_way(packet, OUT))
        source = first.source4 if family == "ipv4" else first.source6
        return captures if source == getattr(self.network.server, family) else captures[::-1]

    def judge(self, capture_file):
        self.assertGreater(len(capture_file.packets), 5)
        for packet in capture_file.packets:
            self.assertFalse(packet.malformed, packet.number)
            self.assertTrue(packet.opcode, packet.number)
            self.assertTrue(is_on_way(packet, IN) or is_on_way(packet, OUT), packet.number)
        plain = capture_file.path + ".pcap"
        sh("editcap", "-F", "pcap", capture_file.path, plain)
        checked = subprocess.run([sys.executable, capture.CHECK, plain], capture_output=True,
                                 text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_others_can_read_it_and_agree(self):
        for number, program in enumerate(PROGRAMS):
            for family in ("ipv4", "ipv6"):
                for gso in ("0", "1"):
                    os.environ["VERBATIM_GSO"] = gso
                    with self.subTest(program=program, family=family, gso=gso):
                        server, client = self.run_pair(program, family, 22000 + number)
                        self.judge(server)
                        self.judge(client)
                        self.assert_agree(server, client)
                        self.assert_agree(client, server)

    def assert_agree(self, sender, receiver):
        """Nothing is lost between namespaces: each packet that was sent has arrived. A packet whose acknowledgement
        was late was sent again, and its copy may have found that the receiving program has ended."""
        sent, got = counted(sender.packets, OUT), counted(receiver.packets, IN)
        self.assertEqual(got - sent, collections.Counter())
        self.assertEqual({payload for _, payload in sent}, {payload for _, payload in got})

    def test_it_holds_what_is_on_the_wire(self):
        wire = os.path.join(self.folder, "wire.pcap")
        found = []
        problems = capture.capture(
            self.network, wire, lambda: found.extend(self.run_pair(LONG, "ipv4", 22100)) or [])
        self.assertFalse(problems)
        held, seen = counted(found[1].packets), counted(packets_of(wire))
        self.assertEqual(held - seen, collections.Counter())
        # A copy that the other side sends late may be on the wire after this program has ended.
        self.assertEqual(set(held), set(seen))

    def test_faults_are_on_the_right_side_of_it(self):
        os.environ["VERBATIM_FAULTS"] = "out drop first=2 opcode=RC_SEND_MIDDLE; in drop first=1"
        server, client = self.run_pair(LONG, "ipv4", 22200)
        # What was dropped on the way out never left; what was dropped on the way in had arrived.
        self.assertEqual(counted(client.packets, OUT), counted(server.packets, IN))
        self.judge(server)

    def pingpong(self, port, peer=""):
        return f"ibv_rc_pingpong -d vb0 -g {self.gid('ipv4')} -n 5 -p {port} {peer}"

    def run_on_server(self, *words):
        process = Process(["ip", "netns", "exec", self.network.server.name, INSTALLATION.command,
                           "run", "--devices", "e0", *words])
        self.addCleanup(process.log.close)
        self.addCleanup(process.end)
        return process

    def test_children_write_beside_each_other(self):
        path = os.path.join(self.folder, "run.pcapng")
        both = (f"{self.pingpong(22301)} & sleep 1; "
                f"{self.pingpong(22301, self.network.server.ipv4)}; wait")
        process = self.run_on_server("--capture", path, "sh", "-c", both)
        self.assertEqual(process.wait(time.monotonic() + PATIENCE), 0, process.output())
        files = sorted(glob.glob(os.path.join(self.folder, "*.pcapng")))
        self.assertEqual(len(files), 2, files)
        self.assertIn(path, files)
        for one in files:
            self.judge(Capture(one))

    def start_long_transfer(self, port, *words):
        program = ["ib_write_bw", "-d", "vb0", "-x", str(self.gid("ipv4")), "-p", str(port), "-D",
                   "20", "-s", "20000"]
        server = self.run_on_server(*program)
        self.assertTrue(server.await_listening(port, time.monotonic() + PATIENCE))
        return self.run_on_server(*words, *program, self.network.server.ipv4)

    def test_who_is_killed_leaves_a_readable_file(self):
        path = os.path.join(self.folder, "run.pcapng")
        client = self.start_long_transfer(22400, "--capture", path)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and size_of(path) < 1 << 20:
            time.sleep(0.05)
        client.child.kill()
        client.child.wait()
        done = subprocess.run(["tshark", "-r", path, "-c", "1000"], capture_output=True, text=True)
        self.assertEqual(len(done.stdout.splitlines()), 1000, done.stderr)

    def test_what_is_captured_is_there_soon_though_the_program_goes_on(self):
        path = os.path.join(self.folder, "run.pcapng")
        server = self.run_on_server(*self.pingpong(22500).split())
        self.assertTrue(server.await_listening(22500, time.monotonic() + PATIENCE))
        # It stops in the middle of the transfer, with packets that a timer must write.
        client = self.run_on_server("--faults", "in drop after=3", "--capture", path,
                                    *self.pingpong(22500, self.network.server.ipv4).split())
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and client.child.poll() is None:
            if size_of(path) > 0 and len(packets_of(path)) >= 3:
                return
            time.sleep(0.2)
        self.fail("nothing in the file before the program ended")

    def test_a_full_disk_ends_the_capture_and_not_the_program(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        sh("mount", "-t", "tmpfs", "-o", "size=256k", "none", disk)
        self.addCleanup(sh, "umount", disk, check=False)
        path = os.path.join(disk, "run.pcapng")
        server = self.run_on_server(*self.pingpong(22600).split(), "-s", "100000")
        self.assertTrue(server.await_listening(22600, time.monotonic() + PATIENCE))
        client = self.run_on_server(
            "--capture", path, *self.pingpong(22600, self.network.server.ipv4).split(), "-s",
            "100000")
        self.assertEqual(client.wait(time.monotonic() + PATIENCE), 0, client.output())
        self.assertEqual(client.output().count("No space left on device"), 1, client.output())
        self.assertIn(path, client.output())
        done = subprocess.run(["tshark", "-r", path], capture_output=True, text=True)
        self.assertNotIn("cut short", done.stderr)


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    is_ready = os.geteuid() == 0 and shutil.which("tshark") and shutil.which("ib_write_bw")
    obstacle = "" if is_ready else "needs root for the namespaces, tshark and perftest"
    return run_tests(__doc__, obstacle, use)


if __name__ == "__main__":
    sys.exit(main())
