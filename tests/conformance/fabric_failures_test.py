#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What programs on a fabric see when a link, a node, a program, OpenSM or the fabric's process fails while they move
data: links and nodes are cut, processes are killed and stopped at any moment. Nothing hangs, and what has not failed
goes on. Needs root, to become an ordinary user.

Usage: fabric_failures_test.py --build build/release [--full] [Failures | AnyMoment ...]
VERBATIM_SEED repeats the moments of an earlier run.
"""
import os
import random
import re
import shutil
import signal
import sys
import time
import unittest

import hosts
from fabric_pairs import Pairs, subnet

INSTALLATION = None
FULL = "--full" in sys.argv
# perftest tries a packet 8 times, 67 ms apart.
SHORT = 0.25


class Failures(Pairs, unittest.TestCase):
    def test_a_cut_link_is_survived(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "8", "-s", "8192"])
        time.sleep(3)
        lids = [str(made.lid_of(host)) for host in ("h0", "h3")]
        [egress] = re.findall(r"\"leaf0\"\n\[(\d+)\]", made.run("h0", "ibtracert", *lids).stdout)
        other = {"3": "4", "4": "3"}[egress]
        before = self.counters(made)
        made.tell("link", "down", f"leaf0[{egress}]")
        self.finish(listening, connecting)
        grown = self.counters(made)[f"leaf0[{other}]"]["sent_packets"] - before[f"leaf0[{other}]"]["sent_packets"]
        self.assertGreater(grown, 10_000, "the packets have not taken the other link")
        leaf = str(made.lid_of_switch("leaf0"))
        self.assertRegex(made.run("h0", "perfquery", leaf, egress).stdout, r"LinkDownedCounter:\.*1\n")
        made.stop(made.opensm)
        self.assertIn("num:128", made.file("osm.log"))

    def counters(self, made):
        return {f"{port['node']}[{port['port']}]": port["counters"] for port in made.ports()}

    def test_a_node_without_power_ends_its_connections(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "30", "-s", "8192"])
        time.sleep(1)
        made.tell("node", "off", "h3")
        self.assertIsNotNone(connecting.wait(time.monotonic() + hosts.PATIENCE), "the peer hangs")
        self.assertRegex(connecting.output(), r"(?i)syndrom 0x81|retry|fail")
        listening.end()
        self.passes(made, "ibv_rc_pingpong", server="h2", client="h0")

    def test_a_killed_program_ends_its_peer_and_frees_its_place(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "30", "-s", "8192"])
        time.sleep(1)
        os.killpg(listening.child.pid, signal.SIGKILL)
        self.assertIsNotNone(connecting.wait(time.monotonic() + hosts.PATIENCE), "the peer hangs")
        self.passes(made, "ibv_rc_pingpong")

    def test_a_stopped_program_stops_no_other(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "30", "-s", "8192"])
        time.sleep(1)
        os.killpg(listening.child.pid, signal.SIGSTOP)
        self.passes(made, "ibv_rc_pingpong", server="h2", client="h0")
        self.passes(made, "ibv_rc_pingpong", server="h3", client="h1")
        os.killpg(listening.child.pid, signal.SIGCONT)
        connecting.end()

    def test_a_fabric_that_is_stopped_for_a_moment_loses_nothing(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "4", "-s", "8192"])
        time.sleep(1)
        os.killpg(made.process.child.pid, signal.SIGSTOP)
        time.sleep(SHORT)
        os.killpg(made.process.child.pid, signal.SIGCONT)
        self.finish(listening, connecting)

    def test_the_end_of_the_fabric_hangs_no_program(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "30", "-s", "8192"])
        time.sleep(1)
        os.killpg(made.process.child.pid, signal.SIGKILL)
        made.process.child.wait()
        for process in (connecting, listening):
            self.assertIsNotNone(process.wait(time.monotonic() + hosts.PATIENCE), "it hangs")
        done = made.run("h0", "ibv_devinfo")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, r"fabric .* (has ended|is not running|no fabric)|there is no fabric")

    def test_data_goes_on_without_a_subnet_manager(self):
        made = subnet(self, INSTALLATION)
        listening, connecting = self.pair(made, ["ib_write_bw", "-D", "3", "-s", "8192"])
        time.sleep(1)
        os.killpg(made.opensm.child.pid, signal.SIGKILL)
        made.opensm.child.wait()
        self.finish(listening, connecting)
        self.passes(made, "ibv_rc_pingpong")


class AnyMoment(Pairs, unittest.TestCase):
    """A process is killed, or stopped for a while, at a moment that a seed chooses: from the start of the programs
    on. Both programs end, and then programs run as if nothing had happened."""
    ROUNDS = 40 if FULL else 3
    PROGRAMS = (["ib_write_bw", "-D", "2"], ["ib_send_bw", "-D", "2", "-s", "4096"], ["ib_read_lat", "-n", "5000"],
                ["ibv_rc_pingpong", "-n", "20000"], ["ib_write_bw", "-c", "UC", "-D", "2", "-s", "4096"])

    def test_nothing_hangs(self):
        seed = int(os.environ.get("VERBATIM_SEED", "0")) or int.from_bytes(os.urandom(4))
        print(f"VERBATIM_SEED={seed}", file=sys.stderr)
        chosen = random.Random(seed)
        made = subnet(self, INSTALLATION)
        for number in range(self.ROUNDS):
            victim = chosen.choice(("server", "client", "opensm", "fabric"))
            number_of_signal = chosen.choice((signal.SIGKILL, signal.SIGSTOP))
            program = chosen.choice(self.PROGRAMS)
            moment, length = chosen.uniform(0, 1.5), chosen.uniform(0, 1)
            with self.subTest(seed=seed, round=number, victim=victim, signal=number_of_signal.name, program=program,
                              moment=moment, length=length):
                listening, connecting = self.pair(made, program)
                process = {"server": listening, "client": connecting, "opensm": made.opensm,
                           "fabric": made.process}[victim]
                time.sleep(moment)
                self.strike(process, number_of_signal, length)
                deadline = time.monotonic() + hosts.PATIENCE
                self.assertIsNotNone(connecting.wait(deadline), f"the client hangs: {connecting.output()}")
                # A server of the pingpongs waits for ever for the last messages of a client that has ended.
                listening.end()
                if number_of_signal == signal.SIGKILL and victim in ("opensm", "fabric"):
                    made.end()
                    made = subnet(self, INSTALLATION)
                self.passes(made, "ibv_rc_pingpong", "-n", "100")

    def strike(self, process, number, length):
        try:
            os.killpg(process.child.pid, number)
            if number == signal.SIGSTOP:
                time.sleep(length)
                os.killpg(process.child.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it has ended by itself


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    sys.argv = [word for word in sys.argv if word != "--full"]
    programs = ("opensm", "ibtracert", "ibv_rc_pingpong", "ib_write_bw")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
