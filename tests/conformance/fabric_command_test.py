#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `verbatim fabric` and `verbatim run --fabric` promise on their command line, without a subnet manager. Needs
no root.

Usage: fabric_command_test.py --build build/release
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/FABRIC.md")
BUILD = ""
PATIENCE = 60


class Fabrics(unittest.TestCase):
    """Each test has a folder of its own, so no other fabric is there."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="vbf", dir="/tmp")
        self.environment = {**os.environ, "VERBATIM_DIR": self.folder}
        for name in ("VERBATIM_FABRIC", "VERBATIM_NODE", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)
        self.command = os.path.join(BUILD, "bin/verbatim")
        self.running = []

    def tearDown(self):
        for process in self.running:
            process.kill()
            process.communicate()
        shutil.rmtree(self.folder)

    def verbatim(self, *words, **environment):
        return subprocess.run([self.command, *words], capture_output=True, text=True,
                              env={**self.environment, **environment}, timeout=PATIENCE, stdin=subprocess.DEVNULL)

    def up(self, name, *words):
        """A fabric in the foreground, whose console is a pipe."""
        process = subprocess.Popen([self.command, "fabric", "up", name, *words], text=True, env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.running.append(process)
        self.assertIn(f"fabric {name}: ", process.stdout.readline())
        return process

    def good(self, *words, **environment):
        done = self.verbatim(*words, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bad(self, *words, **environment):
        done = self.verbatim(*words, **environment)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr


class Run(Fabrics):
    TREE = ("fabric", "run", "--tree", "2x2", "--")

    def test_the_exit_status_is_the_programs_own(self):
        self.assertEqual(self.verbatim(*self.TREE, "sh", "-c", "exit 42").returncode, 42)
        self.assertEqual(self.verbatim(*self.TREE, "sh", "-c", "kill -9 $$").returncode, 128 + 9)
        self.assertEqual(self.verbatim(*self.TREE, "no-such-program").returncode, 127)
        self.assertEqual(self.verbatim(*self.TREE, "/").returncode, 126)

    def test_the_program_is_on_a_node_of_the_fabric(self):
        script = 'echo $VERBATIM_NODE; "$0" fabric show nodes --json'
        done = self.verbatim("fabric", "run", "--ring", "3", "--node", "h2", "--", "sh", "-c", script, self.command)
        node, nodes = done.stdout.split("\n", 1)
        self.assertEqual(node, "h2")
        self.assertEqual([one["name"] for one in json.loads(nodes)], ["sw0", "sw1", "sw2", "h0", "h1", "h2"])

    def test_nothing_stays(self):
        self.verbatim(*self.TREE, "true")
        self.assertEqual(self.good("fabric", "list"), "")
        self.assertEqual(os.listdir(os.path.join(self.folder, "fabric")), [])

    def test_what_does_not_come_up_is_125(self):
        for words, message in ((("--tree", "2", "--", "true"), "'2' is not a tree"),
                               (("--", "true"), "a topology is missing"),
                               (("--tree", "2x2"), "a program is missing"),
                               (("--tree", "2x2", "--node", "h9", "--", "true"), "there is no node 'h9'; similar")):
            done = self.verbatim("fabric", "run", *words)
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(message, done.stderr)


class Up(Fabrics):
    def test_a_mistake_in_a_file_has_its_line(self):
        file = os.path.join(self.folder, "bad.net")
        with open(file, "w", encoding="ascii") as text:
            text.write('Switch 2 "s"\n[3] "h"[1]\n')
        self.assertIn(f"{file}:2: '3' is not a port of 's', which has ports 1 to 2",
                      self.bad("fabric", "up", "demo", file))

    def test_the_topology_that_it_shows_is_read_again(self):
        self.up("one", "--torus", "3x3")
        file = os.path.join(self.folder, "torus.net")
        with open(file, "w", encoding="ascii") as text:
            text.write(self.good("fabric", "show", "topology"))
        self.up("two", file)
        self.assertEqual(self.good("fabric", "show", "--fabric", "two"), self.good("fabric", "show", "--fabric", "one"))

    def test_a_name_has_one_fabric(self):
        self.up("demo", "--ring", "3")
        self.assertIn("demo is running already", self.bad("fabric", "up", "demo", "--ring", "3"))

    def test_a_signal_ends_it_and_its_name_is_free(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.up("demo", "--ring", "3")
            process.send_signal(number)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)
            self.assertEqual(self.good("fabric", "list"), "")

    def test_a_killed_fabric_leaves_its_name_free(self):
        process = self.up("demo", "--ring", "3")
        process.kill()
        process.communicate()
        self.assertIn("there is no fabric demo", self.bad("fabric", "show", "--fabric", "demo"))
        self.up("demo", "--ring", "3")

    def test_it_runs_in_the_background_until_it_is_ended(self):
        self.assertIn("verbatim fabric down demo", self.good("fabric", "up", "demo", "--ring", "3", "-d"))
        self.assertEqual(self.good("fabric", "list"), "demo\n")
        self.good("fabric", "down")
        self.assertEqual(self.good("fabric", "list"), "")

    def test_the_console_takes_commands(self):
        process = self.up("demo", "--tree", "2x2")
        out, errors = process.communicate("# a comment\n\nlink down leaf0[3]\njump\nquit\n", timeout=PATIENCE)
        self.assertIn("link leaf0[3] - leaf1[3] is pulled out\n", out)
        self.assertEqual(errors, "'jump' is no command; `help` lists them\n")
        self.assertEqual(process.returncode, 0)

    def test_the_end_of_a_pipe_does_not_end_it(self):
        process = self.up("demo", "--tree", "2x2")
        process.stdin.close()
        self.good("fabric", "show")
        self.assertIsNone(process.poll())
        process.stdin = None

    def test_opensm_that_is_not_installed_is_named(self):
        if any(os.access(os.path.join(folder, "opensm"), os.X_OK)
               for folder in ("/usr/sbin", "/usr/local/sbin", "/sbin")):
            self.skipTest("it is installed")
        done = self.verbatim("fabric", "up", "demo", "--tree", "2x2", "--opensm", PATH="/nowhere")
        self.assertIn("install the package opensm", done.stderr)


@unittest.skipUnless(os.path.exists("/usr/sbin/opensm") and shutil.which("ibping", path="/usr/sbin"),
                     "needs opensm and infiniband-diags")
class ASessionToCopy(Fabrics):
    """The commands of docs/FABRIC.md, and what the page says of them."""

    def setUp(self):
        super().setUp()
        self.environment["PATH"] = f"{os.path.join(BUILD, 'bin')}:/usr/sbin:{os.environ['PATH']}"
        with open(PAGE, encoding="utf-8") as text:
            self.blocks = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", text.read(), re.S)]

    def tearDown(self):
        self.verbatim("fabric", "down")  # where the test fails before it has typed that
        super().tearDown()

    def type(self, line, may_fail=False):
        script = f"{self.blocks[1][0]}\n{line}\nstatus=$?; kill %1 2>/dev/null; exit $status"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                              env=self.environment, timeout=PATIENCE, cwd=self.folder)
        if not may_fail:
            self.assertEqual(done.returncode, 0, line + done.stdout + done.stderr)
        return done.stdout

    def test_two_terminals(self):
        start = self.blocks[0][1].partition("#")[0]
        self.type(f"{start} --detach")
        lines = iter(self.blocks[1][1:])
        for line in lines:
            printed = self.type(line)
            if lid := re.search(r"LIDs; (\d+) is that of (\w+)", line):
                self.assertRegex(printed, rf"(?m)^{lid[2]} .* {lid[1]} +127\.[0-9.]+ +on ")
            if "ibping" in line:
                self.assertRegex(printed, r"[1-5] received")
            if "show route" in line:
                cut = next(lines)
                port = re.search(r"link down (\S+)", cut)[1]
                self.assertIn(f"{port} ->", printed)
                self.type(cut)
                line = next(lines)
                [other] = re.findall(r"over (\S+) now", line)
                deadline = time.monotonic() + PATIENCE
                route = ""
                while f"{other} ->" not in route and time.monotonic() < deadline:
                    time.sleep(0.02)
                    route = self.type(line, may_fail=True)  # While OpenSM changes the tables, there may be no route.
                self.assertIn(f"{other} ->", route)
        self.assertEqual(self.verbatim("fabric", "list").stdout, "")

    def test_one_command(self):
        self.assertIn("nodes checked, 0 bad nodes found", self.type(self.blocks[2][0]))


class Commands(Fabrics):
    def test_a_link_goes_down_and_up(self):
        self.up("demo", "--tree", "2x2")
        self.good("fabric", "link", "down", "leaf0[3]")
        self.assertEqual(json.loads(self.good("fabric", "show", "--json"))["ports"], 10)
        link = next(one for one in json.loads(self.good("fabric", "show", "links", "--json")) if one["a"] == "leaf0[3]")
        self.assertEqual((link["state"], link["has_cable"]), ("Down", False))
        self.good("fabric", "link", "up", "leaf0[3]")
        self.assertEqual(json.loads(self.good("fabric", "show", "--json"))["ports"], 12)

    def test_a_node_goes_off_and_on(self):
        self.up("demo", "--tree", "2x2")
        self.good("fabric", "switch", "off", "leaf1")
        self.assertEqual(json.loads(self.good("fabric", "show", "--json"))["ports"], 4)
        self.good("fabric", "node", "on", "leaf1")
        self.assertEqual(json.loads(self.good("fabric", "show", "--json"))["ports"], 12)

    def test_wrong_names_are_answered_with_similar_ones(self):
        self.up("demo", "--tree", "2x2")
        self.assertEqual(self.bad("fabric", "link", "down", "lef0[1]"),
                         "verbatim fabric: there is no node 'lef0'; similar names: leaf0, leaf1\n")
        self.assertIn("expected is: link down PORT", self.bad("fabric", "link", "down"))

    def test_without_a_fabric_it_says_how_to_start_one(self):
        self.assertIn("no fabric is running; start one", self.bad("fabric", "show"))
        self.assertIn("there is no fabric demo", self.bad("fabric", "show", VERBATIM_FABRIC="demo"))

    def test_of_several_fabrics_one_must_be_chosen(self):
        self.up("one", "--ring", "3")
        self.up("two", "--ring", "4")
        self.assertIn("several fabrics are running: one, two;", self.bad("fabric", "show"))
        self.assertIn("4 switches", self.good("fabric", "show", "--fabric", "two"))
        self.assertIn("3 switches", self.good("fabric", "show", VERBATIM_FABRIC="one"))
        self.assertIn("there is no fabric six", self.bad("fabric", "show", "--fabric", "six"))
        self.assertIn("running are one, two", self.bad("fabric", "show", "--fabric", "six"))

    def test_a_stopped_fabric_is_named(self):
        process = self.up("demo", "--ring", "3")
        process.send_signal(signal.SIGSTOP)
        try:
            self.assertIn("demo", self.bad("fabric", "show"))
        finally:
            process.send_signal(signal.SIGCONT)


class Programs(Fabrics):
    def test_a_program_starts_on_a_node(self):
        self.up("demo", "--tree", "2x2")
        done = self.good("run", "--fabric", "demo", "--node", "h1", "--", "sh", "-c",
                         "echo $VERBATIM_FABRIC $VERBATIM_NODE $OSM_TMP_DIR $LD_LIBRARY_PATH")
        fabric, node, temporary, libraries = done.split()
        self.assertEqual((fabric, node), ("demo", "h1"))
        self.assertTrue(os.path.isdir(temporary))
        for name in ("libibumad.so.3", "libibverbs.so.1"):
            self.assertTrue(any(os.path.exists(os.path.join(folder, name)) for folder in libraries.split(":")), name)

    def test_a_folder_is_a_name(self):
        place = os.path.join(self.folder, "shared")
        self.up(place, "--tree", "2x2")
        self.assertEqual(self.good("run", "--fabric", place, "--node", "h1", "echo", "-n", "yes"), "yes")

    def test_what_is_not_there_is_125(self):
        self.up("demo", "--tree", "2x2")
        for words, message in ((("--fabric", "demo", "--node", "h9"), "there is no node 'h9'; similar names: h0"),
                               (("--fabric", "demo"), "a node of the fabric is missing"),
                               (("--fabric", "dmeo", "--node", "h0"), "there is no fabric dmeo")):
            done = self.verbatim("run", *words, "true")
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(message, done.stderr)
        self.good("fabric", "node", "off", "h0")
        done = self.verbatim("run", "--fabric", "demo", "--node", "h0", "true")
        self.assertIn("node h0 has no power", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
