# SPDX-License-Identifier: Apache-2.0
"""A fabric of `verbatim fabric up` with programs on its nodes, all as an ordinary user."""
import itertools
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import hosts

TREE = ["--tree", "2x2"]  # two switches with two hosts each, and two links between them
HOSTS = ("h0", "h1", "h2", "h3")
SM_HOST = "h1"
_numbers = itertools.count()


class Fabric:
    """Runs until end(). Files of programs lie in `folder`, which every user may write to."""

    def __init__(self, installation, topology, options=()):
        self.command = installation.command
        self.name = f"conformance-{os.getpid()}-{next(_numbers)}"
        self.folder = tempfile.mkdtemp(prefix="fabric-", dir=installation.folder)
        os.chmod(self.folder, 0o777)
        self.programs = []
        self.process = self._start([self.command, "fabric", "up", self.name, *topology, *options])

    def _start(self, words, environment=None):
        started = hosts.Process(["env", "-C", self.folder, *hosts.NOBODY, *words], environment)
        self.programs.append(started)
        return started

    def await_up(self):
        deadline = time.monotonic() + hosts.PATIENCE
        while not self.is_up():
            if time.monotonic() > deadline or self.process.child.poll() is not None:
                raise RuntimeError(f"the fabric does not come up: {self.process.output()}")
            time.sleep(0.02)
        return self

    def is_up(self):
        return self.tell("show", check=False).returncode == 0

    def tell(self, *words, check=True):
        """`verbatim fabric link down ...` for this fabric."""
        done = subprocess.run(hosts.NOBODY + [self.command, "fabric", *words],
                              env={**os.environ, "VERBATIM_FABRIC": self.name},
                              capture_output=True, text=True, timeout=hosts.PATIENCE)
        if check and done.returncode != 0:
            raise RuntimeError(f"fabric {' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def words(self, node, program):
        return [self.command, "run", "--fabric", self.name, "--node", node, *program]

    def start(self, node, *program):
        return self._start(self.words(node, program))

    def run(self, node, *program):
        """The program's exit status and output; it gets a minute."""
        return subprocess.run(hosts.NOBODY + self.words(node, program), cwd=self.folder,
                              capture_output=True, text=True, errors="replace",
                              timeout=hosts.PATIENCE)

    def start_opensm(self, node=SM_HOST, log="osm.log", *options):
        return self.start(node, "opensm", "-e", "-f", log, *options)

    def file(self, name):
        with open(os.path.join(self.folder, name), errors="replace") as content:
            return content.read()

    def ports(self):
        """The ports as `verbatim fabric show ports` has them."""
        return json.loads(self.tell("show", "ports", "--json").stdout)

    def port_of(self, node):
        """What ibstat says of a host: a dictionary of its lines."""
        text = self.run(node, "ibstat").stdout
        return dict(re.findall(r"^\t\t([A-Za-z ]+): (.*)$", text, re.M))

    def lid_of(self, node):
        return int(self.port_of(node)["Base lid"])

    def lid_of_switch(self, name):
        return next(node["lid"] for node in json.loads(self.tell("show", "nodes", "--json").stdout)
                    if node["name"] == name)

    def are_active(self, nodes=HOSTS):
        return all(self.port_of(node).get("State") == "Active" for node in nodes)

    def await_active(self, nodes=HOSTS):
        deadline = time.monotonic() + hosts.PATIENCE
        while not self.are_active(nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("ports are not active: "
                                   + "".join(p.output() for p in self.programs))
            time.sleep(0.05)
        return self

    def end(self):
        for program in reversed(self.programs):
            program.end()

    @staticmethod
    def stop(program):
        """Ends a program in the friendly way, so that it writes its log, and waits for it."""
        os.killpg(program.child.pid, signal.SIGTERM)
        return program.wait(time.monotonic() + hosts.PATIENCE)
