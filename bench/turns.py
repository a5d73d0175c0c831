#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a build slower than an earlier one? Both in turns, in one run.

Usage: turns.py --before OLD_BUILD --build build/release [--rounds 9] [--part host|wire] [--save FILE]

Every round runs each measurement of host.py and wire.py with the earlier build, with the new one, and with
the earlier one once more. The ratio of the earlier build to itself shows what the machine alone does to a
number. A new build is slower when the median of its ratios lies beyond every ratio of the earlier build to
itself. Exit status: 0, 1 when something failed or is slower, 77 when it could not be tried.
"""
import argparse
import json
import statistics
import sys

import host
import wire
from comparison import attempt, Measurement, Peer, progress, quantity, Result
from hosts import Installation, Network
from stage import SKIPPED, OtherWork, Stage, why_not

ROUNDS = 9
BEFORE, AGAIN = "before", "before, again"


def of_host(stage):
    direct, peers = host.Direct(stage), host.Peers(stage)
    return [*host.small_messages(direct, peers), *host.bulk(direct, peers), *host.rates(direct, peers)]


# Name of the network, MTU, and the measurements on it.
PARTS = {
    "host": [("one", 1500, of_host)],
    "wire": [("two", 9000, lambda stage: wire.at_mtu(stage, 9000)),
             ("two", 1500, lambda stage: wire.at_mtu(stage, 1500))],
}


def in_turns(new, before, again):
    """The same measurements of three stages, as one with two peers each."""
    for ours, theirs, once_more in zip(new, before, again, strict=True):
        yield Measurement(ours.what, ours.unit, ours.run,
                          (Peer(BEFORE, theirs.run), Peer(AGAIN, once_more.run)))


def take_rounds(measurements, count):
    """The earlier build first and last, so that a drift of the machine shows in its own ratio too."""
    results = [Result(measurement) for measurement in measurements]
    for number in range(count):
        for result in results:
            measurement = result.measurement
            progress(f"round {number + 1} of {count}: {measurement.what}")
            before, again = measurement.peers
            result.theirs[BEFORE].append(attempt(before.run, BEFORE, result))
            result.ours.append(attempt(measurement.run, measurement.what, result))
            result.theirs[AGAIN].append(attempt(again.run, AGAIN, result))
    progress("")
    return results


def slowdowns(result, numbers):
    """How many times slower than the earlier build, round by round."""
    is_time = result.measurement.unit == "us"
    pairs = [(here, there) for here, there in zip(numbers, result.theirs[BEFORE]) if here and there]
    return [here / there if is_time else there / here for here, there in pairs]


def judge(result):
    ours, own = slowdowns(result, result.ours), slowdowns(result, result.theirs[AGAIN])
    if not ours or not own:
        return None
    return {"what": result.measurement.what, "unit": result.measurement.unit,
            "new": statistics.median(filter(None, result.ours)),
            "before": statistics.median(filter(None, result.theirs[BEFORE])),
            "slower": statistics.median(ours), "spread": [min(own), max(own)],
            "is_slower": statistics.median(ours) > max(own)}


def show(rows):
    print(f"{'':46} {'before':>12} {'new':>12} {'slower':>8}  spread of the earlier build")
    for row in rows:
        low, high = row["spread"]
        print(f"{row['what']:46} {quantity(row['before'], row['unit']):>12} "
              f"{quantity(row['new'], row['unit']):>12} {row['slower']:7.3f}x  {low:.3f} to {high:.3f}"
              f"{'  SLOWER' if row['is_slower'] else ''}")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--before", required=True, help="build folder of the earlier code")
    options.add_argument("--build", required=True, help="build folder of the new code")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--part", choices=PARTS, action="append")
    options.add_argument("--save", metavar="FILE")
    given = options.parse_args()
    if reason := why_not((*host.PROGRAMS, *wire.PROGRAMS)):
        print(f"SKIPPED: {reason}")
        return SKIPPED
    new, before = Installation(given.build), Installation(given.before)
    other_work = OtherWork()
    results = []
    try:
        for part in given.part or PARTS:
            for name, mtu, measurements in PARTS[part]:
                network = Network(name, mtu, new.command)
                try:
                    stages = [Stage(new, network), Stage(before, network), Stage(before, network)]
                    for number, stage in enumerate(stages):
                        stage.skip_ports(number * 10_000)
                    results += take_rounds(in_turns(*map(measurements, stages)), given.rounds)
                finally:
                    network.remove()
    finally:
        new.remove()
        before.remove()
    rows = [row for row in map(judge, results) if row]
    print(f"Medians of {given.rounds} rounds; other work on the machine meanwhile: "
          f"{other_work.cores():.2f} cores.\n")
    show(rows)
    failures = sorted({item for result in results for item in result.failures.items()})
    for name, problem in failures:
        print(f"\nFAILED: {name}: {problem}")
    if given.save:
        with open(given.save, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if failures or any(row["is_slower"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
