#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs on a fabric that send nonsense, read nothing, and take all that they can get: the process of the fabric goes
on, serves others, and keeps its size. Needs no root and no program of infiniband-diags.

Usage: fabric_hostile_test.py --build build/release
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BUILD = ""
PATIENCE = 60
MIB = 1 << 20

# What the programs below have in common: libibumad and datagrams.
COMMON = r"""
import ctypes, errno, os, random, socket, struct, sys, time
umad = ctypes.CDLL('libibumad.so.3', use_errno=True)
HEADER = 64

def port():
    opened = umad.umad_open_port(None, 0)
    assert opened >= 0, opened
    return opened

def register(port, management_class, version=1, rmpp=0, methods=None):
    mask = (ctypes.c_ulong * 2)()
    for method in methods or ():
        mask[method // 64] |= 1 << (method % 64)
    return umad.umad_register(port, management_class, version, rmpp, mask if methods else None)

def datagram(management_class, method=1, transaction=1, attribute=0x11, rest=b''):
    octets = bytearray(HEADER + 256)
    struct.pack_into('>BBBBHHQHHI', octets, HEADER, 1, management_class, 1, method, 0, 0, transaction, attribute, 0, 0)
    octets[HEADER + 24:HEADER + 24 + len(rest)] = rest
    if management_class == 0x81:
        octets[HEADER + 32:HEADER + 36] = b'\xff\xff\xff\xff'
    return octets

def send(port, agent, octets, lid=0xffff, qp=0, timeout=0, retries=0):
    buffer = (ctypes.c_char * len(octets)).from_buffer(octets)
    umad.umad_set_addr(buffer, lid, qp, 0, ctypes.c_int(-0x7fff0000) if qp else 0)
    return umad.umad_send(port, agent, buffer, len(octets) - HEADER, timeout, retries)

def receive(port, timeout):
    buffer = ctypes.create_string_buffer(HEADER + 256)
    length = ctypes.c_int(256)
    agent = umad.umad_recv(port, buffer, ctypes.byref(length), timeout)
    return agent, buffer.raw

def ready():
    print('ready', flush=True)
"""

# Asks its own node for NodeInfo, and prints the class of the answer and its method.
PROBE = COMMON + r"""
opened = port()
agent = register(opened, 0x81)
assert send(opened, agent, datagram(0x81), timeout=30000) == 0
_, octets = receive(opened, 31000)
print(octets[HEADER + 1], octets[HEADER + 3])
"""

GARBAGE = COMMON + r"""
chance = random.Random(7)
opened = [port() for _ in range(8)]
for one in opened:
    for management_class in (0x81, 0x01, 0x03, 0x32):
        register(one, management_class, rmpp=1 if management_class == 0x03 else 0)
for i in range(20000):
    one = chance.choice(opened)
    octets = bytearray(chance.randbytes(chance.choice((1, 3, 40, 63, 88, 100, 319, 320, 321, 5000))))
    if chance.random() < 0.8 and len(octets) > 70:  # a header that is right, so that the rest is looked at
        struct.pack_into('<IIIII', octets, 0, chance.randrange(5), 0, chance.randrange(4), chance.randrange(3), len(octets))
        octets[HEADER:HEADER + 4] = bytes([1, chance.choice((0x81, 0x01, 0x03, 0x04, 0x32)), chance.choice((1, 2)),
                                           chance.choice((1, 2, 5, 6, 7, 0x12, 0x81, 0x92))])
        struct.pack_into('>H', octets, 28, chance.choice((0, 1, 2, 0xc000, 0xffff)))
    try:
        socket.socket(fileno=os.dup(one)).send(octets, socket.MSG_DONTWAIT)
    except BlockingIOError:
        time.sleep(0.001)
"""

# The fabric may keep tens of thousands of answers for it, and drops the others.
SILENT = COMMON + r"""
opened = port()
agent = register(opened, 0x81)
for i in range(150000):
    assert send(opened, agent, datagram(0x81, transaction=i), timeout=100) == 0
ready()
time.sleep(600)
"""

# 200 * 32 agents; all that are more are refused.
AGENTS = COMMON + r"""
for _ in range(200):
    opened = port()
    for _ in range(32):
        assert register(opened, 4) >= 0
    assert register(opened, 4) == -errno.EPERM
ready()
time.sleep(600)
"""

# To an agent for subnet administration at the same port: segments of messages that never begin, or are endless.
SEGMENTS = COMMON + r"""
server = port()
assert register(server, 3, 1, 1, (0x12, 0x14)) >= 0
opened = port()
agent = register(opened, 3, 1, 0)
lid = int(sys.argv[1])
for i in range(40000):
    first = i % 2
    segment = 1 if first else (2, 3, 64, 65, 0x7fffffff, 0xffffffff)[i // 2 % 6]
    header = struct.pack('>BBBBII', 1, 1, (31 << 3) | 1 | (first << 1), 0, segment, 0xffffffff)
    while send(opened, agent, datagram(3, 0x14, i, rest=header), lid, 1) != 0:
        time.sleep(0.001)
ready()
time.sleep(600)
"""

# Many large messages to a LID that no port has; all wait for an acknowledgement for long.
HOARD = COMMON + r"""
opened = port()
agent = register(opened, 3, 1, 1)
accepted = 0
for i in range(100):
    header = struct.pack('>BBBBII', 1, 1, (31 << 3) | 1, 0, 0, 0)
    octets = datagram(3, 0x14, i, rest=header) + bytes(8 << 20)
    accepted += send(opened, agent, octets, 99, 1, timeout=600000, retries=100000) == 0
print(accepted, flush=True)
time.sleep(600)
"""


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="vbh", dir="/tmp")
        self.environment = {**os.environ, "VERBATIM_DIR": self.folder, "VERBATIM_FABRIC": "demo"}
        for name in ("VERBATIM_NODE", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)
        self.command = os.path.join(BUILD, "bin/verbatim")
        self.running = []
        self.fabric = self.start("fabric", "up", "demo", "--tree", "2x2", stdin=subprocess.PIPE)
        self.assertIn("fabric demo: ", self.fabric.stdout.readline())
        self.probe()  # what it needs once does not count
        self.octets_before = self.resident()

    def tearDown(self):
        for process in reversed(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        shutil.rmtree(self.folder)

    def start(self, *words, stdin=subprocess.DEVNULL):
        process = subprocess.Popen([self.command, *words], text=True, env=self.environment, stdin=stdin,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.running.append(process)
        return process

    def on_node(self, node, script, *words):
        return self.start("run", "--fabric", "demo", "--node", node, "--", sys.executable, "-c", script, *words)

    def resident(self):
        with open(f"/proc/{self.fabric.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def probe(self):
        """Another program gets its answer."""
        out, errors = self.on_node("h3", PROBE).communicate(timeout=PATIENCE)
        self.assertEqual(out, f"{0x81} {0x81}\n", errors)

    def await_line(self, process):
        line = process.stdout.readline()
        self.assertNotEqual(line, "", "it has ended: " + (process.stderr.read() if process.poll() else ""))
        return line

    def check(self, growth):
        self.probe()
        self.assertIsNone(self.fabric.poll(), "the fabric has ended")
        self.assertLess(self.resident() - self.octets_before, growth)

    def test_nonsense_is_survived(self):
        process = self.on_node("h0", GARBAGE)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.check(64 * MIB)

    def test_a_program_that_reads_nothing_stalls_no_other(self):
        self.await_line(self.on_node("h0", SILENT))
        self.check(96 * MIB)

    def test_agents_have_a_limit(self):
        self.await_line(self.on_node("h0", AGENTS))
        self.check(64 * MIB)

    def test_messages_that_never_end_take_little_room(self):
        self.await_line(self.on_node("h0", SEGMENTS, "1"))
        self.check(96 * MIB)

    def test_messages_that_wait_have_a_limit(self):
        accepted = int(self.await_line(self.on_node("h0", HOARD)))
        self.assertGreater(accepted, 10)
        self.assertLess(accepted, 40)  # of 8 MiB each
        self.check(400 * MIB)

    def test_programs_that_leave_at_once_leave_nothing(self):
        script = COMMON + "for i in range(3000): umad.umad_close_port(port())\n"
        process = self.on_node("h0", script)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.check(16 * MIB)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
