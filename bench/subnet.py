#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How the management of a subnet fares on `verbatim fabric`, beside ibsim, in the same run: Debian's OpenSM
and infiniband-diags, the same topologies, an ordinary user. Needs root, to become that user, and the packages
opensm, infiniband-diags, ibsim-utils and libumad2sim0.

Usage: subnet.py --build build/release [--hosts 32,256,1024] [--turns 5] [--json FILE]
"""
import argparse
import datetime
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/conformance"))
import hosts  # noqa: E402

SHAPES = {4: "--tree 2x2", 32: "--fat-tree 4x8/4", 256: "--fat-tree 16x16/8", 1024: "--fat-tree 32x32/16",
          4096: "--fat-tree 64x64/32"}
PATIENCE = 120.0
SM_HOST, OTHER_HOST = "h1", "h0"
PRELOAD = "/usr/lib/*/umad2sim/libumad2sim.so"


class Side:
    """A simulator with programs on its hosts."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, words, environment=None):
        child = subprocess.Popen(["nice", "-n", "5", *hosts.NOBODY, *words], cwd=self.folder, stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True, env={**os.environ, **(environment or {})})
        self.children.append(child)
        return child

    def run(self, node, *program):
        """The output of a program, or an empty text if it takes too long."""
        words, environment = self.on(node, program)
        try:
            return subprocess.run(hosts.NOBODY + words, cwd=self.folder, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=PATIENCE,
                                  env={**os.environ, **environment}).stdout
        except subprocess.TimeoutExpired:
            return ""

    def end(self):
        for child in reversed(self.children):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1)) / 1024


class Verbatim(Side):
    name = "verbatim"

    def __init__(self, folder, command, topology):
        super().__init__(folder)
        self.command, self.fabric = command, f"bench-{os.getpid()}"
        self.process = self.start([command, "fabric", "up", self.fabric, topology])
        self.await_answer()

    def await_answer(self):
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(hosts.NOBODY + [self.command, "fabric", "show"], capture_output=True,
                             env={**os.environ, "VERBATIM_FABRIC": self.fabric}).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError("the fabric does not come up")
            time.sleep(0.02)

    def on(self, node, program):
        return [self.command, "run", "--fabric", self.fabric, "--node", node, *program], {}


class Ibsim(Side):
    name = "ibsim"

    def __init__(self, folder, command, topology):
        super().__init__(folder)
        [self.library] = glob.glob(PRELOAD)
        with open(topology) as file:  # ibsim knows nodes by their identification only
            self.nodes = {name: node for node, name in re.findall(r'^Ca\s+\d+ "(\S+)".*# "(.*)"', file.read(), re.M)}
        self.socket = f"bench-{os.getpid()}"
        self.process = self.start(["ibsim", "-s", topology], {"IBSIM_SOCKNAME": self.socket})
        self.await_answer()

    def await_answer(self):
        deadline = time.monotonic() + PATIENCE
        while "Port GUID" not in self.run(OTHER_HOST, "ibstat"):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("ibsim does not come up")
            time.sleep(0.05)

    def on(self, node, program):
        return list(program), {"LD_PRELOAD": self.library, "SIM_HOST": self.nodes[node], "IBSIM_SOCKNAME": self.socket,
                               "OSM_TMP_DIR": self.folder, "OSM_CACHE_DIR": self.folder}


def log_time(line):
    return datetime.datetime.strptime(" ".join(line.split()[:4])[:22], "%b %d %H:%M:%S %f")


def milliseconds_to_up(log):
    """From OpenSM's first look at the subnet until it says that it is up."""
    lines = log.splitlines()
    begin = [line for line in lines if "Entering DISCOVERING" in line]
    end = [line for line in lines if "SUBNET UP" in line]
    if not begin or not end:
        return None
    return (log_time(end[0]) - log_time(begin[0])).total_seconds() * 1000


def timed(action):
    begin = time.monotonic()
    result = action()
    return result, (time.monotonic() - begin) * 1000


def lid_of(side, node):
    found = re.search(r"Base lid: (\d+)", side.run(node, "ibstat"))
    return found.group(1) if found else "0"


def start_opensm(side, log):
    """Until a port of another host is active."""
    words, environment = side.on(SM_HOST, ["opensm", "-e", "-f", log])
    opensm = side.start(words, environment)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and opensm.poll() is None and "Active" not in side.run(OTHER_HOST, "ibstat"):
        time.sleep(0.1)
    return opensm


def stop_opensm(side, opensm, log):
    """How long the subnet took to come up."""
    os.killpg(opensm.pid, signal.SIGTERM)
    opensm.wait(PATIENCE)
    return time_in(side, log)


def once(side, log):
    """The same for an OpenSM that ends when the subnet is up."""
    words, environment = side.on(SM_HOST, ["opensm", "-o", "-e", "-f", log])
    side.start(words, environment).wait(PATIENCE)
    return time_in(side, log)


def time_in(side, log):
    with open(os.path.join(side.folder, log), errors="replace") as content:
        return milliseconds_to_up(content.read())


def measure(side, host_count, turns):
    result = {"simulator": side.name, "hosts": host_count}
    opensm = start_opensm(side, "osm.log")

    def count(key, pattern, *program):
        text, result[f"{key}_ms"] = timed(lambda: side.run(OTHER_HOST, *program))
        result[key] = len(re.findall(pattern, text, re.M))
    count("discovered_hosts", "^Ca", "ibnetdiscover")
    count("node_records", "NodeRecord dump", "saquery", "-t", "60000", "NodeRecord")
    count("path_records", "PathRecord dump", "saquery", "-t", "60000", "-p")
    result["simulator_mib"] = side.memory_mib()
    # OpenSM writes its log when it ends, unless it crashes, which the rest may lead to.
    times = [stop_opensm(side, opensm, "osm.log")]
    for turn in range(1, turns):
        times.append(once(side, f"osm{turn}.log"))
    result["subnet_up_ms"] = min((time for time in times if time is not None), default=None)
    opensm = start_opensm(side, "last.log")
    words, environment = side.on("h2", ["ibping", "-S"])
    side.start(words, environment)
    time.sleep(0.5)
    found = re.search(r"(\d+) received", side.run(OTHER_HOST, "ibping", "-f", "-c", "5", "-L", lid_of(side, "h2")))
    result["ibping_of_5"] = int(found.group(1)) if found else 0
    side.run(OTHER_HOST, "ibping", "-c", "1", "-L", lid_of(side, SM_HOST))
    time.sleep(0.5)
    result["opensm_survives_ibping"] = opensm.poll() is None
    return result


def topology_file(folder, command, shape):
    """The topology as ibnetdiscover prints it, which both simulators read."""
    name = f"bench-topology-{os.getpid()}"
    side = Verbatim.__new__(Verbatim)
    Side.__init__(side, folder)
    side.command, side.fabric = command, name
    side.process = side.start([command, "fabric", "up", name, *shape.split()])
    try:
        side.await_answer()
        text = subprocess.run(hosts.NOBODY + [command, "fabric", "show", "topology"], capture_output=True, text=True,
                              check=True, env={**os.environ, "VERBATIM_FABRIC": name}).stdout
    finally:
        side.end()
    path = os.path.join(folder, "topology.net")
    with open(path, "w") as file:
        file.write(text)
    return path


def show(rows):
    print("| hosts | simulator | SUBNET UP | ibnetdiscover: hosts | NodeRecords | PathRecords | ibping answered "
          "| OpenSM survives ibping | memory |")
    print("|---:|---|---:|---:|---:|---:|---:|---|---:|")
    for row in rows:
        cells = [str(row["hosts"]), row["simulator"],
                 f"{row['subnet_up_ms']:.0f} ms" if row["subnet_up_ms"] is not None else "not logged"]
        cells += [f"{row[key]} in {row[key + '_ms']:.0f} ms"
                  for key in ("discovered_hosts", "node_records", "path_records")]
        cells += [f"{row['ibping_of_5']} of 5", "yes" if row["opensm_survives_ibping"] else "no",
                  f"{row['simulator_mib']:.0f} MiB"]
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--hosts", default="32,256,1024")
    parser.add_argument("--turns", type=int, default=5, help="times that OpenSM starts; the shortest time counts")
    parser.add_argument("--json")
    options = parser.parse_args()
    missing = [p for p in ("opensm", "saquery", "ibsim") if shutil.which(p) is None] + (
        [] if glob.glob(PRELOAD) else ["libumad2sim.so"])
    if missing or os.geteuid() != 0:
        print(f"needs root and, of the packages named above, {', '.join(missing) or 'nothing else'}", file=sys.stderr)
        return 1
    installation = hosts.Installation(options.build)
    rows = []
    try:
        for count in map(int, options.hosts.split(",")):
            for simulator in (Verbatim, Ibsim):
                folder = tempfile.mkdtemp(dir=installation.folder)
                os.chmod(folder, 0o777)
                topology = topology_file(folder, installation.command, SHAPES[count])
                side = simulator(folder, installation.command, topology)
                try:
                    rows.append(measure(side, count, options.turns))
                finally:
                    side.end()
                print(json.dumps(rows[-1]), file=sys.stderr)
    finally:
        installation.remove()
    show(rows)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
