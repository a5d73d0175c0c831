# SPDX-License-Identifier: Apache-2.0
"""Network namespaces as hosts, and programs in them as an ordinary user without capabilities."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
          "--inh-caps=-all", "--bounding-set=-all"]
CM_LIBRARY = "lib/librdmacm.so.1"
REDIRECT_LIBRARY = "lib/libverbatim-preload.so"
UMAD_LIBRARY = "lib/fabric/libibumad.so.3"
PORT_SPACES = ("2", "106", "111", "13f")  # of rdma_cm, as hexadecimal digits
SKIPPED = 77  # exit status of tests that cannot run here
PATIENCE = 60.0  # seconds any one program gets; nothing here is about speed


def sh(*words, check=True):
    """Runs one command of the set-up. If it fails, the error says what the command has printed."""
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Installation:
    """A copy of the command and its libraries where every user can read it."""

    def __init__(self, build):
        # The namespaces and this folder are removed also when the test is ended early.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        self.folder = tempfile.mkdtemp(prefix="verbatim-conformance-")
        os.chmod(self.folder, 0o755)
        for part in ("bin/verbatim", "lib/libibverbs.so.1", CM_LIBRARY, REDIRECT_LIBRARY, UMAD_LIBRARY):
            target = os.path.join(self.folder, part)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.realpath(os.path.join(build, part)), target)
        os.symlink("libibverbs.so.1", os.path.join(self.folder, "lib/libibverbs.so"))
        self.command = os.path.join(self.folder, "bin/verbatim")

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def run_tests(description, obstacle, use):
    """The main function of a test program: runs the tests that the command line names, or all of them. `use` gets the
    installation that they test. `obstacle` says why they cannot run here; empty: they can."""
    options = argparse.ArgumentParser(description=description.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    options.add_argument("tests", nargs="*", help="only these: Class, Class.test_...")
    given, rest = options.parse_known_args()
    if obstacle:
        print(f"SKIPPED: {obstacle}")
        return SKIPPED
    installation = Installation(given.build)
    use(installation)
    try:
        # Not that the logs of processes are open: a test that fails prints them.
        done = unittest.main(argv=[sys.argv[0], *given.tests, *rest], exit=False, warnings="ignore")
        return 0 if done.result.wasSuccessful() else 1
    finally:
        installation.remove()


class Host:
    """One namespace with one interface, e0, that has an IPv4 and an IPv6 address."""

    def __init__(self, name, command, number):
        self.name, self.command = name, command
        self.ipv4, self.ipv6 = f"10.77.0.{number}", f"fd77::{number}"
        sh("ip", "netns", "add", name)
        # Addresses that are still being checked for duplicates are no GIDs yet.
        sh("ip", "netns", "exec", name, "sh", "-c",
           "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad;"
           "echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad")
        sh("ip", "-n", name, "link", "set", "lo", "up")

    def configure(self, mtu):
        sh("ip", "-n", self.name, "link", "set", "e0", "mtu", str(mtu), "up")
        sh("ip", "-n", self.name, "addr", "add", f"{self.ipv4}/24", "dev", "e0")
        sh("ip", "-n", self.name, "addr", "add", f"{self.ipv6}/64", "dev", "e0", "nodad")

    def words(self, program, user=True):
        """The command line that runs `program` here on the adapter."""
        return (["ip", "netns", "exec", self.name] + (NOBODY if user else [])
                + [self.command, "run", "--devices", "e0"] + list(program))

    def gid_indices(self):
        """GID index by address, as `verbatim devices` lists them."""
        text = sh("ip", "netns", "exec", self.name, "env", "VERBATIM_DEVICES=e0",
                  self.command, "devices", "--json")
        return {gid["address"]: gid["index"] for gid in json.loads(text)[0]["gids"]}

    def start(self, program, environment=None):
        return Process(self.words(program), environment)

    def remove(self):
        sh("ip", "netns", "del", self.name, check=False)


class Process:
    """A running program with its output in a file; ends with its whole session."""

    def __init__(self, words, environment=None):
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=subprocess.STDOUT, start_new_session=True,
                                      env={**os.environ, **(environment or {})})

    def listens(self, port):
        """Whether a TCP socket or an rdma_cm id of its namespace listens on the port. One that is
        bound and does not listen yet refuses connections."""
        if self._serves(port):
            return True
        for family in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.child.pid}/net/{family}") as table:
                    for line in table.readlines()[1:]:
                        fields = line.split()
                        if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                            return True
            except OSError:
                return False
        return False

    def _serves(self, port):
        """Whether an rdma_cm id listens on the port, in whichever port space. A bound one has the name
        .../cm-<address>-<service>; where it listens there is also .../at-<address>-<service>-<slot>."""
        services = [f"{space}{port:04x}" for space in PORT_SPACES]
        bound, listening = set(), set()
        try:
            with open(f"/proc/{self.child.pid}/net/unix") as table:
                for line in table:
                    path = line.split()[-1]
                    parts = path.rsplit("/", 1)[-1].split("-")
                    if ".verbatim-" not in path or len(parts) < 3 or parts[2] not in services:
                        continue
                    if parts[0] == "cm":
                        bound.add((parts[1], parts[2]))
                    elif parts[0] == "at":
                        listening.add((parts[1], parts[2]))
        except OSError:
            return False
        return bool(bound) and bound <= listening

    def await_listening(self, port, deadline):
        while time.monotonic() < deadline and self.child.poll() is None:
            if self.listens(port):
                return True
            time.sleep(0.02)
        return False

    def await_membership(self, group, deadline):
        """Until an interface of its namespace has joined a multicast group."""
        wanted = "".join(f"{int(part):02X}" for part in reversed(group.split(".")))
        while time.monotonic() < deadline and self.child.poll() is None:
            with open(f"/proc/{self.child.pid}/net/igmp") as table:
                if wanted in table.read():
                    time.sleep(0.2)  # joined; the queue pair has its receives a moment later
                    return True
            time.sleep(0.02)
        return False

    def wait(self, deadline):
        """The exit status; None when time ran out."""
        try:
            return self.child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def end(self):
        if self.child.poll() is None:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.child.wait()

    def output(self):
        self.log.seek(0)
        return self.log.read()


class Network:
    """Where a case runs: `server` and `client` are two hosts, or twice the same one."""

    def __init__(self, kind, mtu, command):
        self.kind, self.mtu = kind, mtu
        self.label = f"{kind}-{mtu}"
        stem = f"vbc{os.getpid()}"
        self.hosts = [Host(f"{stem}a", command, 1)]
        try:
            if kind == "two":
                self.hosts.append(Host(f"{stem}b", command, 2))
            far = self.hosts[-1].name
            far_end = "e0" if kind == "two" else "e1"
            sh("ip", "link", "add", "e0", "netns", self.hosts[0].name, "type", "veth",
               "peer", "name", far_end, "netns", far)
            if kind == "one":
                sh("ip", "-n", far, "link", "set", "e1", "mtu", str(mtu), "up")
            for host in self.hosts:
                host.configure(mtu)
            self._await_gids()
        except Exception:
            self.remove()
            raise

    def _await_gids(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if all({h.ipv4, h.ipv6} <= set(h.gid_indices()) for h in self.hosts):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.label}: no GIDs for the addresses")

    @property
    def server(self):
        return self.hosts[0]

    @property
    def client(self):
        return self.hosts[-1]

    def remove(self):
        for host in self.hosts:
            host.remove()
