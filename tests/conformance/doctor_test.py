#!/usr/bin/python3
"""What `verbatim doctor` finds: on hosts without faults, and on hosts with faults made on purpose.

Usage: doctor_test.py --build build/release
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import NOBODY, Network, Process, run_tests, sh

PATIENCE = 60.0
BAD_ROUTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bad_router.py")
STRANGER = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
INSTALLATION = None

# Binds UDP port 4791 as any program may, says so, and stays.
TAKE_PORT = ("import socket, sys, time\n"
             "taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
             "taken.bind((sys.argv[1], 4791))\n"
             "print('taken', flush=True)\n"
             "time.sleep(300)\n")


def inside(host):
    return ["ip", "netns", "exec", host]


def doctor(host, *words, user=True, **environment):
    """(exit status, findings) of the doctor in a namespace, as an ordinary user unless told."""
    done = subprocess.run(
        inside(host) + (NOBODY if user else []) + [INSTALLATION.command, "doctor", "--json", *words],
        capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "VERBATIM_DEVICES": "e0", **environment})
    return done.returncode, json.loads(done.stdout)


def about(findings, subject):
    """The one finding whose subject contains the words."""
    found = [one for one in findings if subject in one["subject"]]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} findings about '{subject}' in {findings}")
    return found[0]


def grades(findings):
    return {one["grade"] for one in findings}


class Serving:
    """`doctor --serve` in a namespace, for the time of a with-block."""

    def __init__(self, host, user=True, control=4791):
        self.process = Process(
            inside(host) + (NOBODY if user else [])
            + [INSTALLATION.command, "doctor", "--serve", "--port", str(control)],
            {"VERBATIM_DEVICES": "e0"})
        self.control = control

    def __enter__(self):
        if not self.process.await_listening(self.control, time.monotonic() + PATIENCE):
            raise AssertionError(self.process.output())
        return self

    def __exit__(self, *error):
        self.process.end()
        self.process.log.close()


class OneHost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network("two", 1500, INSTALLATION.command)
        cls.host = cls.network.server.name

    @classmethod
    def tearDownClass(cls):
        cls.network.remove()

    def test_a_host_that_is_well_has_no_problem(self):
        status, findings = doctor(self.host)
        self.assertEqual(status, 0, findings)
        self.assertNotIn("problem", grades(findings))
        self.assertIn("1024", about(findings, "vb0 MTU")["what"])
        self.assertEqual(about(findings, "UDP port 4791")["grade"], "ok")

    def test_every_finding_that_is_not_well_has_advice(self):
        for finding in doctor(self.host)[1]:
            self.assertTrue(finding["what"], finding)
            self.assertEqual(finding["advice"] != "", finding["grade"] != "ok", finding)

    def test_text_has_no_colour_in_a_pipe(self):
        done = subprocess.run(inside(self.host) + [INSTALLATION.command, "doctor"],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("10.77.0.1", done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assertRegex(done.stdout, r"0 problems, \d+ warnings\n$")

    def test_a_port_that_another_user_has_is_named_with_its_user(self):
        for user, process_is_seen in ((True, False), (False, True)):
            taker = subprocess.Popen(
                inside(self.host) + STRANGER + ["/usr/bin/python3", "-c", TAKE_PORT, "10.77.0.1"],
                stdout=subprocess.PIPE, text=True)
            try:
                self.assertEqual(taker.stdout.readline(), "taken\n")
                status, findings = doctor(self.host, user=user)
                finding = about(findings, "UDP port 4791")
                self.assertEqual((status, finding["grade"]), (1, "problem"), finding)
                self.assertIn("54321", finding["what"])
                if process_is_seen:
                    self.assertIn(str(taker.pid), finding["what"])
                    self.assertIn("python3", finding["what"])
            finally:
                taker.kill()
                taker.communicate()

    def test_a_port_that_our_own_programs_share_is_well(self):
        with Serving(self.host):
            status, findings = doctor(self.host)
        self.assertEqual(status, 0)
        self.assertIn("shared", about(findings, "UDP port 4791")["what"])

    def test_a_host_without_an_address_has_no_device(self):
        name = f"vbd{os.getpid()}n"
        sh("ip", "netns", "add", name)
        try:
            status, findings = doctor(name, VERBATIM_DEVICES="")
        finally:
            sh("ip", "netns", "del", name)
        self.assertEqual(status, 1)
        self.assertEqual(about(findings, "devices")["grade"], "problem")

    def test_a_configuration_with_a_mistake_is_named(self):
        status, findings = doctor(self.host, VERBATIM_DEVICES="nosuch0")
        self.assertEqual(status, 1)
        self.assertIn("'nosuch0'", about(findings, "configuration")["what"])

    def test_too_few_open_files_are_a_problem(self):
        done = subprocess.run(
            ["prlimit", "--nofile=40:40"] + inside(self.host)
            + [INSTALLATION.command, "doctor", "--json"], capture_output=True, text=True)
        self.assertEqual(about(json.loads(done.stdout), "open files")["grade"], "problem")
        self.assertEqual(done.returncode, 1)

    def test_advice_for_a_limit_is_not_that_for_a_port_in_use(self):
        done = subprocess.run(
            inside(self.host) + NOBODY + ["prlimit", "--nofile=12:12", INSTALLATION.command, "doctor", "--json"],
            capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "VERBATIM_DEVICES": "e0"})
        finding = about(json.loads(done.stdout), "UDP port 4791")
        self.assertEqual(finding["grade"], "problem", finding)
        self.assertIn("ulimit", finding["what"])
        self.assertNotIn("another address", finding["advice"])

    def test_a_foreign_library_in_the_environment_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            open(os.path.join(folder, "libibverbs.so.1"), "w").close()
            finding = about(doctor(self.host, LD_LIBRARY_PATH=folder)[1], "environment")
        self.assertEqual(finding["grade"], "warning")
        self.assertIn(folder, finding["what"])

    def judge_program(self, path):
        return about(doctor(self.host, "--program", path)[1], path)

    def test_programs_are_looked_into(self):
        program = shutil.which("ib_send_bw") or shutil.which("ibv_rc_pingpong")
        if program:
            finding = self.judge_program(program)
            self.assertEqual(finding["grade"], "ok")
            self.assertIn("linked with libibverbs", finding["what"])
        self.assertEqual(self.judge_program("/no/such/program")["grade"], "problem")
        self.assertIn("script", self.judge_program("/usr/bin/ldd")["what"])

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_programs_that_cannot_be_helped_are_problems(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            source = os.path.join(folder, "a.c")
            with open(source, "w") as text:
                text.write("int main(void) { return 0; }\n")
            still = os.path.join(folder, "static")
            sh("gcc", "-static", "-o", still, source)
            self.assertIn("statically", self.judge_program(still)["what"])
            changer = os.path.join(folder, "changer")
            sh("gcc", "-o", changer, source)
            os.chmod(changer, 0o4755)
            self.assertIn("changes its user", self.judge_program(changer)["what"])
            os.chmod(changer, 0o2755)
            self.assertIn("changes its group", self.judge_program(changer)["what"])
            os.chmod(changer, 0o755)
            # Version 2, effective: CAP_NET_RAW (13), as Debian's ping has it.
            capability = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
            os.setxattr(changer, "security.capability", capability)
            finding = self.judge_program(changer)
            self.assertEqual(finding["grade"], "problem")
            self.assertIn("gets capabilities", finding["what"])
            os.removexattr(changer, "security.capability")
            self.assertEqual(self.judge_program(changer)["grade"], "ok")
            foreign = os.path.join(folder, "foreign")
            open(os.path.join(folder, "libibverbs.so.1"), "w").close()
            sh("gcc", "-o", foreign, source, f"-Wl,-rpath,{folder}")
            finding = self.judge_program(foreign)
            self.assertEqual(finding["grade"], "warning")
            self.assertIn(os.path.join(folder, "libibverbs.so.1"), finding["what"])


class TwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network("two", 1500, INSTALLATION.command)
        cls.server, cls.client = cls.network.server, cls.network.client

    @classmethod
    def tearDownClass(cls):
        cls.network.remove()

    def test_a_good_path_is_good_in_every_respect(self):
        for address in (self.server.ipv4, self.server.ipv6):
            with Serving(self.server.name):
                status, findings = doctor(self.client.name, "--peer", address)
            self.assertEqual((status, grades(findings)), (0, {"ok"}), findings)
            for subject in ("UDP port 4791 to", "UDP port 4791 from", "address translation",
                            "ICRC to", "ICRC from", "path MTU to", "path MTU from"):
                self.assertEqual(about(findings, subject)["grade"], "ok")

    def test_identifications_are_seen_with_the_right_to(self):
        with Serving(self.server.name, user=False):
            findings = doctor(self.client.name, "--peer", self.server.ipv4)[1]
        self.assertEqual(about(findings, "identifications")["what"], "arrive as they were sent")

    def test_one_server_serves_many(self):
        with Serving(self.server.name):
            for _ in range(3):
                self.assertEqual(doctor(self.client.name, "--peer", self.server.ipv4)[0], 0)

    def test_both_ends_may_be_one_host(self):
        with Serving(self.server.name):
            self.assertEqual(doctor(self.server.name, "--peer", self.server.ipv4)[0], 0)

    def test_a_peer_that_does_not_serve_is_told_how_to(self):
        status, findings = doctor(self.client.name, "--peer", self.server.ipv4)
        self.assertEqual(status, 1)
        self.assertIn("--serve", about(findings, "peer")["advice"])

    def test_a_name_that_leads_nowhere_is_named(self):
        status, findings = doctor(self.client.name, "--peer", "no such host")
        self.assertEqual(status, 1)
        self.assertIn("no such host", about(findings, "peer")["what"])

    def test_mtus_that_differ_are_told(self):
        sh("ip", "-n", self.client.name, "link", "set", "e0", "mtu", "800")
        try:
            with Serving(self.server.name):
                findings = doctor(self.client.name, "--peer", self.server.ipv4)[1]
        finally:
            sh("ip", "-n", self.client.name, "link", "set", "e0", "mtu", "1500")
        finding = [one for one in findings if one["subject"] == "MTU"][0]
        self.assertEqual(finding["grade"], "warning")
        self.assertIn("512 here and 1024 there", finding["what"])


class ARouterBetween(unittest.TestCase):
    """Two hosts with a third in the middle that does something to packets."""

    def setUp(self):
        stem = f"vbr{os.getpid()}"
        self.left, self.router, self.right = (stem + end for end in "lmr")
        for name in (self.left, self.router, self.right):
            sh("ip", "netns", "add", name)
            self.addCleanup(sh, "ip", "netns", "del", name, check=False)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        for number, end in ((1, self.left), (2, self.right)):
            side = f"r{number}"
            sh("ip", "link", "add", "e0", "netns", end, "type", "veth", "peer", "name", side,
               "netns", self.router)
            sh("ip", "-n", end, "addr", "add", f"10.78.{number}.2/24", "dev", "e0")
            sh("ip", "-n", self.router, "addr", "add", f"10.78.{number}.1/24", "dev", side)
            sh("ip", "-n", end, "link", "set", "e0", "up")
            sh("ip", "-n", self.router, "link", "set", side, "up")
            sh("ip", "-n", end, "route", "add", "default", "via", f"10.78.{number}.1")
        sh(*inside(self.router), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")

    def ask(self):
        with Serving(self.right):
            return doctor(self.left, "--peer", "10.78.2.2")

    def fall_ill(self, illness):
        for name in ("all", "r1", "r2"):
            sh(*inside(self.router), "sh", "-c", f"echo 0 >/proc/sys/net/ipv4/conf/{name}/rp_filter")
        router = subprocess.Popen(inside(self.router) + ["/usr/bin/python3", BAD_ROUTER, illness],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(router.communicate)
        self.addCleanup(router.kill)
        if router.stdout.readline() != "ready\n":
            self.skipTest("needs /dev/net/tun")

    def test_a_router_that_only_routes_is_well(self):
        status, findings = self.ask()
        self.assertEqual(status, 0, findings)

    def test_a_narrow_link_in_the_middle_is_found(self):
        sh("ip", "-n", self.router, "link", "set", "r2", "mtu", "1000")
        status, findings = self.ask()
        finding = about(findings, "path MTU to")
        self.assertEqual((status, finding["grade"]), (1, "problem"), findings)
        self.assertIn("the largest that gets through is 512", finding["what"])

    def test_a_router_in_a_program_is_well_too(self):
        self.fall_ill("pass")
        status, findings = self.ask()
        self.assertEqual(status, 0, findings)

    def test_a_firewall_is_found(self):
        self.fall_ill("drop")
        status, findings = self.ask()
        self.assertEqual(status, 1)
        for way in ("to", "from"):
            self.assertEqual(about(findings, f"UDP port 4791 {way}")["grade"], "problem")

    def test_address_translation_is_found(self):
        self.fall_ill("translate")
        status, findings = self.ask()
        finding = about(findings, "address translation")
        self.assertEqual((status, finding["grade"]), (1, "problem"), findings)
        self.assertIn("10.78.1.2", finding["what"])
        self.assertIn("10.78.9.9", finding["what"])
        self.assertEqual(about(findings, "ICRC to")["grade"], "problem")
        self.assertEqual(about(findings, "ICRC from")["grade"], "problem")

    def test_renumbered_identifications_are_found_and_only_a_warning(self):
        self.fall_ill("renumber")
        with Serving(self.right, user=False):
            status, findings = doctor(self.left, "--peer", "10.78.2.2")
        finding = about(findings, "identifications")
        self.assertEqual((status, finding["grade"]), (0, "warning"), findings)
        self.assertIn(f"arrives as {0x4242}", finding["what"])


def main():
    def use(installation):
        global INSTALLATION
        INSTALLATION = installation

    obstacle = "" if os.geteuid() == 0 else "needs root for the namespaces"
    return run_tests(__doc__, obstacle, use)


if __name__ == "__main__":
    sys.exit(main())
