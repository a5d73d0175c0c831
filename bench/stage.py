# SPDX-License-Identifier: Apache-2.0
"""Where benchmarks happen: two ends of a measurement, one core each, as an ordinary user; and the frame
of the programs that measure."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/conformance"))
from hosts import NOBODY, Installation, Process  # noqa: E402

import comparison  # noqa: E402
from comparison import Absent, Failed  # noqa: E402

SKIPPED = 77
LIMIT = 30  # seconds for any one program
GRACE = 1   # seconds in which a server may end by itself
FIRST_PORT = 18000
MIB = 1 << 20
# Reduces the influence of other programs. Real-time priority does more, but cannot be used when a
# program spins on memory that the adapter's thread, on the same core, has to fill.
URGENT = ["nice", "-n", "-20"]
REAL_TIME = ["chrt", "-f", "20"]


class Stage:
    """Starts programs on the hosts of a network, the server's end on core 0, the client's on core 1."""

    def __init__(self, installation, network):
        self.installation, self.network = installation, network
        self.gid = network.server.gid_indices()[network.server.ipv4]
        self._port = FIRST_PORT

    def next_port(self):
        """One that no earlier program leaves in TIME_WAIT."""
        self._port += 1
        return self._port

    def skip_ports(self, count):
        """So that two stages on one network do not use the same ones."""
        self._port += count

    def pair(self, server, client, port, urgency=None, protocol="tcp"):
        """What the client prints. The server is ready when it holds the port."""
        serving = Process(self._words(self.network.server, server, urgency, core=0))
        try:
            deadline = time.monotonic() + LIMIT
            while not self._holds(protocol, port):
                if serving.child.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"{' '.join(server)} never listened:\n{serving.output()[-1000:]}")
                time.sleep(0.02)
            return self._output(self._words(self.network.client, client, urgency, core=1), client)
        finally:
            end_server(serving)

    def alone(self, program):
        """What a program prints that starts both ends itself and gives each its core."""
        return self._output(self._words(self.network.server, program), program)

    def peer(self, name, *arguments, launcher=()):
        """The one number that a program of this folder prints."""
        path = os.path.join(self.installation.folder, "bin", name)
        if not os.path.exists(path):
            raise Absent(f"{name} was not built: its library is not installed (scripts/setup.sh bench)")
        text = self.alone([*launcher, path, *map(str, arguments)])
        try:
            return float(text)
        except ValueError:
            raise Failed(f"{name} printed no number:\n{text[-1000:]}") from None

    def verbs(self, program, *arguments):
        """The command line that runs a program on Verbatim."""
        return [self.installation.command, "run", "--devices", "e0", program, *map(str, arguments)]

    def perftest(self, program, *options, urgency=None, path="auto"):
        """The output of a program of perftest on Verbatim."""
        port = self.next_port()
        words = ["env", f"VERBATIM_PATH={path}"] + self.verbs(
            program, "-d", "vb0", "-x", self.gid, "-p", port, "-F", *options)
        return self.pair(words, words + [self.network.server.ipv4], port, urgency)

    def gigabytes(self, program, *options, **where):
        """GB/s. What perftest calls MB is 2^20 octets."""
        return perftest_row(self.perftest(program, *options, **where))[3] * MIB / 1e9

    def messages(self, program, *options, **where):
        """Millions of messages per second."""
        return perftest_row(self.perftest(program, *options, **where))[4]

    def microseconds(self, program, *options, **where):
        """The median one way, or there and back for READ and atomics; its table has two digits, its
        list of all more."""
        text = self.perftest(program, "-H", *options, **where)
        times = [float(cell) for cell in re.findall(r"^\d+, ([\d.e+-]+)$", text, re.M)]
        if not times:
            raise Failed(f"{program} printed no times:\n{text[-1000:]}")
        return statistics.median(times)

    def _words(self, host, program, urgency=None, core=None):
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        return (["timeout", "-s", "KILL", str(LIMIT), *(urgency or URGENT), *pinned,
                 "ip", "netns", "exec", host.name] + NOBODY + program)

    def _output(self, words, program):
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failed(f"{' '.join(program)}: status {done.returncode}\n"
                         + (done.stdout + done.stderr)[-1000:])
        return done.stdout

    def _holds(self, protocol, port):
        """Whether a socket of the server's namespace has the port, or an rdma_cm id listens on it."""
        tables = [f"/proc/net/{protocol}", f"/proc/net/{protocol}6", "/proc/net/unix"]
        text = subprocess.run(["ip", "netns", "exec", self.network.server.name, "cat", *tables],
                              capture_output=True, text=True).stdout
        return (f":{port:04X} " in text
                or re.search(rf"/at-.*{port:04x}-\d+$", text, re.M) is not None)


def end_server(serving):
    """Most end by themselves; one that serves for ever gets a signal, then is killed. A server that ends
    normally is waited for by its parents, so its processor time counts for this process."""
    if serving.wait(time.monotonic() + GRACE) is None:
        serving.child.terminate()
        serving.wait(time.monotonic() + GRACE)
    serving.end()


class OtherWork:
    """How many cores the rest of the machine has kept busy since this was made. If that is clearly above
    zero, rates are too low, and medians of short times are affected less."""

    def __init__(self):
        self._start = self._times()

    def cores(self):
        elapsed, busy, own = (now - then for now, then in zip(self._times(), self._start))
        return max(0.0, (busy - own) / max(elapsed, 0.01))

    @staticmethod
    def _times():
        """Seconds: of the clock, of all cores at work, of this process and the ones it waited for."""
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(cell) for cell in file.readline().split()[1:]]
        busy = sum(ticks[:3] + ticks[5:8]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])


def perftest_row(text):
    """The columns of the last line of its table."""
    rows = [line.split() for line in text.splitlines() if re.match(r"^ *\d+ +\d+ ", line)]
    if not rows:
        raise Failed(f"perftest printed no table:\n{text[-1000:]}")
    return [float(cell) for cell in rows[-1]]


def why_not(programs):
    """The reason why a benchmark cannot run here; empty: it can."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if (os.cpu_count() or 1) < 2:
        return "it takes two cores, one for each end"
    missing = [name for name in (*programs, "taskset", "ip") if not shutil.which(name)]
    return f"not installed: {' '.join(missing)} (scripts/setup.sh bench)" if missing else ""


def add_peers(installation, build):
    """The compared programs, copied to where user nobody can run them."""
    folder = os.path.join(build, "bench/peers")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        shutil.copy(os.path.join(folder, name), os.path.join(installation.folder, "bin", name))


def main(doc, programs, rounds, measurements, introduction):
    """The frame of a benchmark. `measurements(installation)` yields lists of Measurement, each list
    with its network up; their rounds are taken before the next list is asked for."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/, lib/ and bench/")
    options.add_argument("--rounds", type=int, default=rounds)
    options.add_argument("--quick", action="store_true", help="one round")
    options.add_argument("--json", action="store_true", help="for machines, instead of the table")
    options.add_argument("--save", metavar="FILE", help="for machines, beside the table")
    given = options.parse_args()
    if reason := why_not(programs):
        print(f"SKIPPED: {reason}")
        return SKIPPED
    count = 1 if given.quick else max(given.rounds, 1)
    results = []
    other_work = OtherWork()
    installation = Installation(given.build)
    try:
        add_peers(installation, given.build)
        for group in measurements(installation):
            results += comparison.take_rounds(group, count)
    finally:
        installation.remove()
    report = {"rounds": count, "other_work_cores": round(other_work.cores(), 2),
              "results": [result.as_json() for result in results]}
    if given.save:
        with open(given.save, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        print(f"{introduction}\nMedians of {count} round{'s' if count > 1 else ''}; other work on the "
              f"machine meanwhile: {report['other_work_cores']} cores.\n")
        comparison.show(report)
    return 1 if any(row["failures"] for row in report["results"]) else 0
