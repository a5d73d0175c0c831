#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's own tests (package python3-pyverbs) on our adapter, each in its own process.

Usage: pyverbs.py --build build/release [--fabric] [--filter TEXT] [--update]

The adapter is that of a network interface, or with --fabric that of node h0 of a fabric with OpenSM. What is
expected of each test stands in pyverbs.txt, or pyverbs_fabric.txt, beside this file: `passed`; `skipped`, with
the test's own reason; or `missing`, with what we lack. A test that is expected to pass and does not, and
any test that fails or crashes and is not `missing`, is a failure. Tests of other vendors' adapters
(mlx5, efa) and of GPUs are left out. Needs root for the namespace; the tests run as nobody.
Exit status: 0 when all is as expected, 1 when not, 77 when it could not be tried.
"""
import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from fabrics import TREE, Fabric
from hosts import PATIENCE, Installation, Network

SKIPPED = 77
SOURCE = "/usr/share/doc/rdma-core/tests"
PYTHON = "/usr/bin/python3"
FOLDER = os.path.dirname(os.path.abspath(__file__))
OTHERS = re.compile(r"mlx5|efa|cuda", re.I)
HEADER = """\
# rdma-core's tests on our adapter, and what is expected of each: passed, skipped (with the test's own
# reason) or missing (with what we lack). Written by `pyverbs.py --update`; compared by every run.
"""


def unpack():
    """The tests as a folder that every user can read; Debian ships them compressed."""
    folder = tempfile.mkdtemp(prefix="verbatim-pyverbs-")
    os.chmod(folder, 0o755)
    target = os.path.join(folder, "tests")
    os.mkdir(target, 0o755)
    for name in os.listdir(SOURCE):
        path = os.path.join(SOURCE, name)
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(os.path.join(target, name[:-3]), "wb") as out:
                shutil.copyfileobj(packed, out)
        elif os.path.isfile(path):
            shutil.copy(path, target)
    return folder


def list_tests(folder):
    listed = subprocess.run([PYTHON, "-B", "tests/run_tests.py", "--list-tests"], cwd=folder,
                            capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split()
            if name.startswith("tests.") and not OTHERS.search(name)]


class OnAnInterface:
    EXPECTED = "pyverbs.txt"
    ADAPTER = ["--dev", "vb0", "--port", "1", "--gid", "1"]

    def __init__(self, installation):
        self.network = Network("one", 1500, installation.command)

    def start(self, program):
        return self.network.server.start(program)

    def remove(self):
        self.network.remove()


class OnANode:
    EXPECTED = "pyverbs_fabric.txt"
    ADAPTER = ["--dev", "vib0", "--port", "1", "--gid", "0"]

    def __init__(self, installation):
        self.fabric = Fabric(installation, TREE)
        try:
            self.fabric.await_up()
            self.fabric.start_opensm()
            self.fabric.await_active()
        except BaseException:
            self.fabric.end()
            raise

    def start(self, program):
        return self.fabric.start("h0", *program)

    def remove(self):
        self.fabric.end()


def run_test(place, folder, name):
    """(passed, skipped, failed, crashed or stuck; one line that says why; the whole output)."""
    program = ["env", "-C", folder, PYTHON, "-B", "-W", "ignore", "tests/run_tests.py", *place.ADAPTER, "-v", name]
    process = place.start(program)
    try:
        status = process.wait(time.monotonic() + PATIENCE)
        output = process.output()
    finally:
        process.end()
    if status is None:
        return "stuck", f"did not end in {PATIENCE:.0f} s", output
    if status not in (0, 1):
        return "crashed", f"ended with {status}", output
    skip = re.search(r"skipped ['\"](.*)['\"]", output)
    if status == 0 and skip:
        return "skipped", " ".join(skip.group(1).replace("\\n", " ").split()), output
    if status == 0 and "Ran 1 test" in output:
        return "passed", "", output
    lines = [line for line in output.splitlines() if re.match(r"\w*(Error|Exception)\b|[\w.]+Error:", line)]
    return "failed", lines[-1] if lines else "see its output", output


def read_expected(path):
    expected = {}
    if os.path.exists(path):
        with open(path) as lines:
            for line in lines:
                if line.strip() and not line.startswith("#"):
                    verdict, name, *reason = line.split(None, 2)
                    expected[name] = (verdict, reason[0].strip() if reason else "")
    return expected


def write_expected(path, results, expected):
    with open(path, "w") as out:
        out.write(HEADER)
        for name, (verdict, reason) in results.items():
            if verdict not in ("passed", "skipped"):
                reason = expected[name][1] if expected.get(name, ("",))[0] == "missing" else reason
                verdict = "missing"
            out.write(f"{verdict:8} {name} {reason}".rstrip() + "\n")


def objection(result, expected):
    """Why a result is not as expected; empty when it is."""
    verdict = result[0]
    wanted = expected[0] if expected else "no expectation"
    if verdict == "passed" or wanted == "missing":
        return ""
    if verdict == "skipped":
        return "" if wanted == "skipped" else f"skipped, expected: {wanted}"
    return f"{verdict}, expected: {wanted}"


def run_all(installation, folder, given):
    kind = OnANode if given.fabric else OnAnInterface
    path = os.path.join(FOLDER, kind.EXPECTED)
    expected = read_expected(path)
    names = [name for name in list_tests(folder) if given.filter in name]
    results, wrong = {}, []
    place = kind(installation)
    try:
        for name in names:
            verdict, reason, output = run_test(place, folder, name)
            results[name] = (verdict, reason)
            why = objection(results[name], expected.get(name))
            print(f"[{len(results)}/{len(names)}] {verdict:8} {name} {reason}", flush=True)
            if why:
                wrong.append(f"{name}: {why}")
            if (why or given.verbose) and verdict not in ("passed", "skipped"):
                print("    " + output.strip()[-3000:].replace("\n", "\n    "), flush=True)
    finally:
        place.remove()
    if given.update and not given.filter:
        write_expected(path, results, expected)
    return report(results, wrong)


def report(results, wrong):
    counts = {}
    for name, (verdict, _) in results.items():
        row = counts.setdefault(name.split(".")[1], {})
        row[verdict] = row.get(verdict, 0) + 1
    columns = ("passed", "skipped", "failed", "crashed", "stuck")
    print("\n" + " " * 24 + "".join(f"{column:>9}" for column in columns))
    for module, row in sorted(counts.items()):
        print(f"{module:24}" + "".join(f"{row.get(column, 0) or '-':>9}" for column in columns))
    for line in wrong:
        print("NOT AS EXPECTED " + line)
    passed = sum(verdict == "passed" for verdict, _ in results.values())
    skipped = sum(verdict == "skipped" for verdict, _ in results.values())
    print(f"{passed} passed, {skipped} skipped, {len(results) - passed - skipped} not passed, "
          f"{len(wrong)} not as expected")
    return 1 if wrong or not passed else 0


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    options.add_argument("--fabric", action="store_true", help="on a node of a fabric")
    options.add_argument("--filter", default="", help="only tests whose name contains this")
    options.add_argument("--update", action="store_true", help="write the expectations anew")
    options.add_argument("--verbose", action="store_true", help="print the output of all failures")
    given = options.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: making network namespaces needs root")
        return SKIPPED
    if not os.path.isdir(SOURCE):
        print("SKIPPED: not installed: python3-pyverbs")
        return SKIPPED
    installation, folder = Installation(given.build), unpack()
    try:
        return run_all(installation, folder, given)
    finally:
        installation.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
