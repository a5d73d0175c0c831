#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the numbers of one whole `make bench` into README.md, docs/SPEED.md and docs/BENCH.md.

Usage: report.py BUILD

Each page has a place between two comments that this program rewrites; do not write numbers there by
hand. Exit status: 0, 1 when a part was not measured.
"""
import contextlib
import datetime
import io
import json
import os
import platform
import re
import subprocess
import sys

import comparison

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PARTS = ("host", "wire", "connections", "crowd", "fabric")
PROGRAMS = ("crc_bench", "core_bench", "rehome_bench")
BEGIN, END = "<!-- numbers of one run, by make bench-report -->", "<!-- end of the numbers -->"
BRIEF = ("ib_write_lat, 8 octets", "ib_send_lat, 8 octets", "ib_write_bw, 1 MiB", "ib_write_bw, 8 octets, lists of 16",
         "MTU 9000: ib_write_bw, 1 MiB", "MTU 9000: ib_send_lat, 8 octets")
SOCKETS = ("TCP on loopback", "UNIX socket")


def output_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()


def occasion(reports):
    """Where, when and of which commit the numbers are."""
    model = re.search(r"^Model name: *(.+)$", output_of("lscpu"), re.M)
    others = max(report["other_work_cores"] for report in reports.values())
    return (f"{datetime.date.today():%-d %B %Y}, commit {output_of('git', 'describe', '--always')}, "
            f"{os.cpu_count()} cores of {model.group(1) if model else platform.machine()}, Linux "
            f"{platform.release()}; other work on the machine meanwhile: up to {others} cores.")


def program_names(text):
    return re.sub(r"\b(ib_\w+|cmtime)\b", r"`\1`", text)


def table(header, rows):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in
                     (header, ["---"] * len(header), *rows)) + "\n"


def wanted(row, peers):
    """The goals and what became of them."""
    judged = [each for each in (row, *peers) if each["goal"]]
    return "; ".join(comparison.verdict(each) for each in judged)


def host_row(row):
    """Sockets have columns of their own; of the other peers those that a goal names, or the first."""
    unit = row["unit"]
    sockets = [next((peer for peer in row["beside"] if peer["name"].startswith(name)), None)
               for name in SOCKETS]
    others = [peer for peer in row["beside"] if peer not in sockets]
    peers = [peer for peer in others if peer["goal"]] or others[:1]
    beside = "; ".join(f"{program_names(peer['name'])}: {comparison.quantity(peer['theirs'], unit)} "
                       f"({comparison.times(peer['ratio'])})" for peer in peers)
    return [program_names(row["what"]), comparison.quantity(row["ours"], unit), beside,
            wanted(row, peers), *(comparison.quantity(peer["theirs"], unit) if peer else "-"
                                  for peer in sockets)]


def plain_rows(report):
    return [[program_names(row["what"]), comparison.quantity(row["ours"], row["unit"]),
             f"{peer['name']}: {comparison.quantity(peer['theirs'], row['unit'])}",
             comparison.times(peer["ratio"])]
            for row in report["results"] for peer in row["beside"]]


def brief(reports):
    """For README.md: a few rows, each with the first of its peers."""
    rows = [(f"{where}: {program_names(row['what'].removeprefix('MTU 9000: '))}", row)
            for part, where in (("host", "one host"), ("wire", "two hosts"))
            for row in reports[part]["results"] if row["what"] in BRIEF]
    return occasion(reports) + "\n\n" + table(
        ["", "here", "beside it in the same run", "ratio"],
        [[what, comparison.quantity(row["ours"], row["unit"]),
          f"{peer['name']}: {comparison.quantity(peer['theirs'], row['unit'])}", comparison.times(peer["ratio"])]
         for what, row in rows for peer in row["beside"][:1]])


def short(reports):
    """For docs/SPEED.md."""
    header = ["beside it in the same run"]
    return "\n".join([
        occasion(reports), "",
        table(["two processes of one host", "here", header[0] + " (ratio)", "wanted", *SOCKETS],
              map(host_row, reports["host"]["results"])),
        table(["two hosts", "here", *header, "ratio"], plain_rows(reports["wire"])),
        table(["connections", "here", *header, "ratio"], plain_rows(reports["connections"])),
        table(["nodes of a fabric", "here", *header, "ratio"], plain_rows(reports["fabric"]))])


def whole(reports, texts):
    """For docs/BENCH.md: what was printed."""
    pieces = [occasion(reports)]
    for part in PARTS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            comparison.show(reports[part])
        pieces.append(f"`{part}`, medians of {reports[part]['rounds']} rounds:\n\n"
                      f"```text\n{printed.getvalue().rstrip()}\n```")
    pieces += [f"`{name}`:\n\n```text\n{texts[name].strip()}\n```" for name in PROGRAMS]
    return "\n\n".join(pieces) + "\n"


def rewrite(page, text):
    path = os.path.join(ROOT, page)
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"report.py: {page} has no place for numbers: '{BEGIN}', then '{END}'")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}{END}{after}")


def main():
    results = os.path.join(sys.argv[1], "bench/results")
    try:
        reports, texts = {}, {}
        for part in PARTS:
            with open(os.path.join(results, f"{part}.json"), encoding="utf-8") as file:
                reports[part] = json.load(file)
        for name in PROGRAMS:
            with open(os.path.join(results, f"{name}.txt"), encoding="utf-8") as file:
                texts[name] = file.read()
    except OSError as problem:
        print(f"report.py: a part was not measured ({problem}): run make bench first", file=sys.stderr)
        return 1
    rewrite("README.md", brief(reports))
    rewrite("docs/SPEED.md", short(reports))
    rewrite("docs/BENCH.md", whole(reports, texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
