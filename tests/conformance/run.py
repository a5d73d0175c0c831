#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that Debian ships for RDMA adapters on ours, unmodified, as an ordinary user.

Usage: run.py --build build/release [--full] [--only plain|faults]
              [--on one|packets|two] [--filter TEXT] [--list]

Networks: two processes in one namespace, once on the direct path and once through packets, and
two namespaces joined by a veth, with IPv4 and IPv6 GIDs. Making namespaces needs root; the programs themselves run as nobody, without capabilities.
Exit status: 0 when all passed, 1 when not, 77 when it could not be tried.
"""
import argparse
import os
import re
import shutil
import sys
import time

import hosts
from cases import all_cases
from hosts import CM_LIBRARY, Installation, Network

SKIPPED = 77
NETWORKS = (("one", 1500), ("packets", 1500), ("two", 1500), ("two", 9000))
# What a program may print while its exit status says that all is well.
COMPLAINT = re.compile(r"invalid data|Failed status|Completion with error|mismatch|"
                       r"Problems|Failed to|failed to|Couldn't|unable to", re.I)
SERVES_FOR_EVER = ("qperf", "cmtime")
UDADDY_PORT = 7174  # it knows no other
MCKEY_GROUP = "239.77.0.1"


def programs_of(case, network, gid, port, address):
    """The command lines of both ends; that of the client is None for a program that is alone."""
    server = network.server
    options = list(case.options)
    if case.kind == "rping":
        common = ["-a", address, "-p", str(port)]
        single = [word for word in options if word != "-P"]
        return ["rping", "-s", *common, *options], ["rping", "-c", *common, *single]
    if case.kind in ("ucmatose", "cmtime"):
        return ([case.program, "-b", address, "-p", str(port), *options],
                [case.program, "-s", address, "-p", str(port), *options])
    if case.kind == "udaddy":
        return ["udaddy", "-b", address, *options], ["udaddy", "-s", address, *options]
    if case.kind == "rdma_client":
        return (["rdma_server", "-s", address, "-p", str(port)],
                ["rdma_client", "-s", address, "-p", str(port), *options])
    if case.kind == "mckey":  # IPv4 groups only, as in Linux
        joins = [word for word in options if word != "-o"]
        return (["mckey", "-m", MCKEY_GROUP, "-b", server.ipv4, *joins],
                ["mckey", "-m", MCKEY_GROUP, "-b", network.client.ipv4, "-s", *options])
    if case.kind == "perftest-cm":
        words = [case.program, "-d", "vb0", "-p", str(port), *options]
        return words, words + [server.ipv4]  # it takes no other through rdma_cm
    if case.kind == "fabric":
        return (["fi_pingpong", "-B", str(port), *options],
                ["fi_pingpong", "-P", str(port), *options, server.ipv4])
    if case.kind == "ucx":
        words = ["env", f"UCX_TLS={options[0]}", "UCX_NET_DEVICES=vb0:1", "ucx_perftest",
                 "-p", str(port)]
        return words, words + options[1:] + [server.ipv4]
    if case.kind == "alone":
        return [case.program, *case.options], None
    if case.kind == "qperf":
        return (["qperf", "-lp", str(port)],
                ["qperf", server.ipv4, "-lp", str(port), "-t", "1", "-to", "30", "-i", "vb0:1",
                 *case.options])
    choice = "-g" if case.kind == "pingpong" else "-x"
    words = [case.program, "-d", "vb0", choice, str(gid), "-p", str(port), *case.options]
    return words, words + [server.ipv4]


def judge(name, status, output):
    """Why one end failed; empty when it did not."""
    if status is None:
        return f"{name} did not end in time"
    if status != 0:
        return f"{name} ended with {status}"
    found = COMPLAINT.search(output)
    return f"{name} says: {found.group(0)}" if found else ""


def run_crowd(network, programs, port, count=5):
    """Runs a server that stays, and several clients at once."""
    deadline = time.monotonic() + hosts.PATIENCE
    server = network.server.start(programs[0])
    clients = []
    try:
        if not server.await_listening(port, deadline):
            return "server never listened", server.output()
        clients = [network.client.start(programs[1]) for _ in range(count)]
        for number, client in enumerate(clients):
            why = judge(f"client {number}", client.wait(deadline), client.output())
            if why:
                break
        if not why and server.child.poll() is not None:
            why = f"server ended with {server.child.poll()}"
        return why, f"--- server\n{server.output()}--- client\n{client.output()}"
    finally:
        for process in [server, *clients]:
            process.end()


def run_pair(network, programs, port, environments, waits_for_server=True):
    """Runs both ends; (why it failed, or nothing; output of both)."""
    deadline = time.monotonic() + hosts.PATIENCE
    server = network.server.start(programs[0], environments[0])
    client = None
    try:
        is_ready = (server.await_membership(MCKEY_GROUP, deadline) if programs[0][0] == "mckey"
                    else server.await_listening(port, deadline))
        if not is_ready:
            status = server.wait(time.monotonic() + 0.1)
            return f"server never listened (status {status})", server.output()
        client = network.client.start(programs[1], environments[1])
        why = judge("client", client.wait(deadline), client.output())
        if waits_for_server:
            grace = deadline if not why else time.monotonic() + 2
            why = why or judge("server", server.wait(grace), server.output())
        return why, f"--- server\n{server.output()}--- client\n{client.output()}"
    finally:
        server.end()
        if client:
            client.end()


def run_case(case, network, gid, port, address):
    """As run_pair()."""
    programs = programs_of(case, network, gid, port, address)
    if programs[1] is None:
        alone = network.server.start(programs[0])
        try:
            status = alone.wait(time.monotonic() + hosts.PATIENCE)
            why = judge(case.program, status, alone.output())
            if not why and "vb0" not in alone.output():
                why = "vb0 is not listed"
            return why, alone.output()
        finally:
            alone.end()
    if case.kind == "udaddy":
        port = UDADDY_PORT
    if case.kind == "rping" and "-P" in case.options:
        return run_crowd(network, programs, port)
    return run_pair(network, programs, port, case.environments(),
                    waits_for_server=case.kind not in SERVES_FOR_EVER)


def plan(full, wanted, only, has_cm):
    """(kind, mtu) -> list of (case, family). The covering selection runs every case between two hosts
    and all but the longest between two processes; MTUs and families take turns."""
    todo = {network: [] for network in NETWORKS}
    cases = [c for c in all_cases() if (full or c.small) and wanted in c.label
             and (has_cm or not c.needs_cm)
             and only in (None, "faults" if c.faults else "plain")]
    if full:
        for kind, mtu in NETWORKS:
            todo[kind, mtu] = [(case, family) for case in cases for family in ("ipv4", "ipv6")
                               if mtu >= case.min_mtu]
        return todo
    for index, case in enumerate(cases):
        first = ("two", 9000) if case.min_mtu > 1500 or index % 2 else ("two", 1500)
        todo[first].append((case, ("ipv4", "ipv6")[index // 2 % 2]))
        if case.min_mtu <= 1500 and "-a" not in case.options and not case.faults:
            todo["one", 1500].append((case, ("ipv6", "ipv4")[index // 2 % 2]))
            if index % 3 == 0:
                todo["packets", 1500].append((case, ("ipv4", "ipv6")[index // 2 % 2]))
    return todo


class Report:
    def __init__(self, total, verbose):
        self.total, self.verbose = total, verbose
        self.passed = 0
        self.failures = []
        self.table = {}  # (network, program) -> [passed, failed]

    def add(self, network, family, case, why, output, seconds):
        row = self.table.setdefault((network, family, case.program), [0, 0])
        row[1 if why else 0] += 1
        if why:
            self.failures.append((network, family, case.label, why))
        else:
            self.passed += 1
        count = self.passed + len(self.failures)
        print(f"[{count}/{self.total}] {'FAIL' if why else 'ok  '} {network} {family} "
              f"{case.label} ({seconds:.1f} s){': ' + why if why else ''}", flush=True)
        if why or self.verbose:
            print("    " + output.strip()[-3000:].replace("\n", "\n    "), flush=True)

    def close(self):
        columns = sorted({(network, family) for network, family, _ in self.table})
        print("\n" + " " * 18 + "".join(f"{n + ' ' + f:>16}" for n, f in columns))
        for program in sorted({program for _, _, program in self.table}):
            cells = [self.table.get((n, f, program)) for n, f in columns]
            print(f"{program:18}" + "".join(
                f"{'-' if c is None else f'{c[0]} ok' + (f' {c[1]} FAIL' if c[1] else ''):>16}"
                for c in cells))
        for failure in self.failures:
            print("FAILED " + " | ".join(failure))
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures or self.passed == 0 else 0


def run_all(todo, command, verbose):
    report = Report(sum(len(cases) for cases in todo.values()), verbose)
    port = 20000
    for (kind, mtu), cases in todo.items():
        if not cases:
            continue
        # Without VERBATIM_PATH, data between processes of one host goes directly.
        os.environ["VERBATIM_PATH"] = "packet" if kind == "packets" else "auto"
        network = Network("one" if kind == "packets" else kind, mtu, command)
        try:
            indices = network.server.gid_indices()
            for case, family in cases:
                port += 1
                address = getattr(network.server, family)
                started = time.monotonic()
                why, output = run_case(case, network, indices[address], port, address)
                label = "packets" if kind == "packets" else network.label
                report.add(label, family, case, why, output, time.monotonic() - started)
        finally:
            network.remove()
    return report.close()


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", required=True, help="build folder with bin/ and lib/")
    options.add_argument("--full", action="store_true", help="every option on every network")
    options.add_argument("--filter", default="", help="only cases whose line contains this")
    options.add_argument("--on", choices=("one", "packets", "two"), help="only this network")
    options.add_argument("--only", choices=("plain", "faults"),
                         help="only the cases without, or with, a bad network")
    options.add_argument("--patience", type=float, default=60,
                         help="seconds that any one program gets; more on a busy machine")
    options.add_argument("--list", action="store_true", help="print the cases and stop")
    options.add_argument("--verbose", action="store_true", help="print what the programs print")
    given = options.parse_args()
    has_cm = os.path.exists(os.path.join(given.build, CM_LIBRARY))
    if not has_cm:
        print("left out: what connects through librdmacm, which this build does not have")
    todo = plan(given.full, given.filter, given.only, has_cm)
    if given.on:
        todo = {network: cases for network, cases in todo.items() if network[0] == given.on}
    if given.list:
        for (kind, mtu), cases in todo.items():
            for case, family in cases:
                print(f"{kind}-{mtu} {family} {case.label}")
        return 0
    if os.geteuid() != 0:
        print("SKIPPED: making network namespaces needs root")
        return SKIPPED
    missing = sorted({case.program for cases in todo.values() for case, _ in cases
                      if not shutil.which(case.program)})
    if missing:
        print("SKIPPED: not installed: " + " ".join(missing))
        return SKIPPED
    hosts.PATIENCE = given.patience
    installation = Installation(given.build)
    try:
        return run_all(todo, installation.command, given.verbose)
    finally:
        installation.remove()


if __name__ == "__main__":
    sys.exit(main())
