#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two versions of Verbatim on one host: their processes share port 4791 and reach each other by packets; processes of one
version go directly beside them.

Usage: two_versions_test.py --build build/release --other PREFIX
PREFIX is what `cmake --install` of the other version made, or an unpacked tarball. scripts/other_version.sh makes one.
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
from hosts import NOBODY, Installation  # noqa: E402

SKIPPED = 77
PATIENCE = 120
OURS, OTHER = "", ""

# $0 and $1 are the commands of the server and of the client, $2 the one that looks; perftest for three seconds.
STREAM = """
"$0" run ib_write_bw -D 3 >/dev/null 2>&1 &
for i in 1 2 3 4 5 6 7 8; do
  sleep 0.5
  "$1" run ib_write_bw -D 3 127.0.0.1 >&2 && break
done &
sleep 2.5
"$2" stat --json
wait
"""


def inside(*words):
    return subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
         "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *NOBODY, *words],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "VERBATIM_DEVICES": "lo"})


class TwoVersions(unittest.TestCase):
    def stream(self, server, client, viewer):
        done = inside("sh", "-c", STREAM, server, client, viewer)
        self.assertRegex(done.stderr, r"(?m)^ 65536 ", done.stderr)
        return json.loads(done.stdout)["processes"]

    def test_the_other_one_is_another_one(self):
        versions = {inside(command, "--version").stdout for command in (OURS, OTHER)}
        self.assertEqual(len(versions), 2, versions)

    def test_they_reach_each_other_by_packets(self):
        for server, client in ((OURS, OTHER), (OTHER, OURS)):
            processes = self.stream(server, client, OURS)
            # The viewer reads only processes of its own version; the other is listed without details.
            paths = [qp["path"] for one in processes for qp in one.get("queue_pairs", [])]
            self.assertEqual(paths, ["packets"], processes)
            self.assertEqual(len(processes), 2, processes)

    def test_processes_of_one_version_go_directly(self):
        for command in (OURS, OTHER):
            paths = [qp["path"] for one in self.stream(command, command, command) for qp in one["queue_pairs"]]
            self.assertEqual(paths, ["direct", "direct"])

    def test_a_viewer_of_the_other_version_says_that_it_sees_another_one(self):
        processes = self.stream(OURS, OURS, OTHER)
        self.assertEqual([one.get("queue_pairs") for one in processes], [None, None], processes)


def main():
    global OURS, OTHER
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--other", required=True)
    given, rest = options.parse_known_args()
    if os.geteuid() != 0 or not shutil.which("ib_write_bw"):
        print("SKIPPED: needs root, for the namespaces, and perftest")
        return SKIPPED
    installation = Installation(given.build)
    OURS, OTHER = installation.command, os.path.join(os.path.abspath(given.other), "bin/verbatim")
    try:
        result = unittest.main(argv=sys.argv[:1] + rest, exit=False).result
        return 0 if result.wasSuccessful() else 1
    finally:
        installation.remove()


if __name__ == "__main__":
    sys.exit(main())
