#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Open MPI over UCX on our device: four processes of one host, directly and through packets. Neither may
use anything else: UCX is configured so. Needs no root.

Usage: mpi_test.py --build build/release
"""
import argparse
import os
import subprocess
import sys
import unittest

BUILD = ""
RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_ranks.py")
PROCESSES = 4


def mpi(*launcher, path="auto", ways="rc_verbs,ud_verbs,self"):
    environment = {**os.environ, "VERBATIM_DEVICES": "lo=vb0", "VERBATIM_PATH": path, "UCX_TLS": ways,
                   "UCX_NET_DEVICES": "vb0:1"}
    words = [*launcher, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(PROCESSES),
             "--mca", "pml", "ucx", "/usr/bin/python3", RANKS]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)


class OpenMpi(unittest.TestCase):
    def expect_agreement(self, **how):
        done = mpi(os.path.join(BUILD, "bin/verbatim"), "run", **how)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, f"{PROCESSES} processes agree\n", done.stderr)

    def test_connections_directly(self):
        self.expect_agreement()

    def test_connections_through_packets(self):
        self.expect_agreement(path="packet")

    def test_datagrams(self):
        self.expect_agreement(ways="ud_verbs,self")

    def test_without_our_device_there_is_no_way(self):
        """That the tests above do not pass by shared memory, TCP or another adapter."""
        self.assertNotEqual(mpi().returncode, 0)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    given, rest = options.parse_known_args()
    BUILD = os.path.abspath(given.build)
    unittest.main(argv=[sys.argv[0], *rest])
