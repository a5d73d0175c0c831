#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Captures what programs send on our adapter, and has others judge it: tshark must find nothing
malformed, and an ICRC computed bit by bit from the specification must agree with every packet.

Usage: capture.py --build build/release
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from cases import Case
from hosts import Installation, Network, sh
from run import SKIPPED, run_case

CASES = (
    Case("ibv_rc_pingpong", ("-n", "5", "-s", "3001", "-c"), kind="pingpong"),
    Case("ibv_uc_pingpong", ("-n", "5", "-c"), kind="pingpong"),
    Case("ibv_ud_pingpong", ("-n", "5", "-s", "1001", "-c"), kind="pingpong"),
    Case("ib_write_bw", ("-n", "5", "-s", "5000")),
    Case("ib_read_bw", ("-n", "5", "-s", "5000")),
    Case("ib_atomic_bw", ("-n", "5", "-A", "CMP_AND_SWAP")),
    Case("ib_atomic_bw", ("-n", "5", "-A", "FETCH_AND_ADD")),
)
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "independent/check_pcap_icrc.py")


def capture(network, path, todo):
    """Runs `todo` while tshark listens on the client's interface. Trains would cross it in one piece:
    own_capture_test.py looks at those."""
    os.environ["VERBATIM_GSO"] = "0"
    listener = subprocess.Popen(
        ["ip", "netns", "exec", network.client.name, "tshark", "-q", "-i", "e0", "-F", "pcap",
         "-f", "udp port 4791", "-w", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        problems = todo()
        time.sleep(2)  # what is on its way reaches the file
        return problems
    finally:
        listener.terminate()
        listener.wait()


def run_cases(network, family):
    problems = []
    for number, case in enumerate(CASES):
        address = getattr(network.server, family)
        gid = network.server.gid_indices()[address]
        why, output = run_case(case, network, gid, 21000 + number, address)
        if why:
            problems.append(f"{family} {case.label}: {why}\n{output}")
    return problems


def dissect(path):
    """Lines that tshark has to complain about, and how many packets it read."""
    text = sh("tshark", "-r", path, "-T", "fields", "-e", "frame.number", "-e",
              "_ws.malformed", "-e", "infiniband.bth.opcode")
    rows = [line.split("\t") for line in text.splitlines()]
    bad = [f"packet {row[0]}: {'malformed' if row[1] else 'not dissected'}"
           for row in rows if row[1] or not row[2]]
    return bad, len(rows)


def judge(path, family):
    bad, count = dissect(path)
    checked = subprocess.run([sys.executable, CHECK, path], capture_output=True, text=True)
    print(f"{family}: tshark read {count} packets, {len(bad)} malformed\n{checked.stdout}", end="")
    problems = [f"{family}: {line}" for line in bad]
    if checked.returncode != 0 or count == 0:
        problems.append(f"{family}: the independent ICRC disagrees, or there was no packet")
    return problems


def run_all(command, folder):
    problems = []
    network = Network("two", 1500, command)
    try:
        # Trains are cut into packets before they reach the wire, and so before the capture.
        for host in network.hosts:
            sh("ip", "-n", host.name, "link", "set", "e0", "gso_max_segs", "1")
        for family in ("ipv4", "ipv6"):
            path = os.path.join(folder, f"{family}.pcap")
            problems += capture(network, path, lambda: run_cases(network, family))
            problems += judge(path, family)
    finally:
        network.remove()
    for problem in problems[:20]:
        print("FAILED " + problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    given = options.parse_args()
    if os.geteuid() != 0 or not shutil.which("tshark"):
        print("SKIPPED: needs root for the namespaces, and tshark")
        return SKIPPED
    installation, folder = Installation(given.build), tempfile.mkdtemp()
    try:
        return run_all(installation.command, folder)
    finally:
        installation.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
