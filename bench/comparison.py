# SPDX-License-Identifier: Apache-2.0
"""Compares a measurement of Verbatim with other programs, in rounds that each measure all; medians, ratios, goals."""
import dataclasses
import operator
import statistics
import sys
from typing import Callable, Optional


class Failed(Exception):
    """A program did not do what it should."""


class Absent(Exception):
    """Something is not installed: there is nothing to compare with."""


@dataclasses.dataclass(frozen=True)
class Goal:
    words: str
    holds: Callable
    bound: float

    def is_met_by(self, value):
        return self.holds(value, self.bound)


def at_most(bound):
    return Goal("at most", operator.le, bound)


def at_least(bound):
    return Goal("at least", operator.ge, bound)


def below(bound):
    return Goal("below", operator.lt, bound)


def above(bound):
    return Goal("above", operator.gt, bound)


@dataclasses.dataclass(frozen=True)
class Peer:
    """A program that a measurement is compared with. One of the same name runs once in a round."""
    name: str
    run: Callable[[], float]     # one number, in the measurement's unit
    goal: Optional[Goal] = None  # of the ratio, ours to theirs


@dataclasses.dataclass(frozen=True)
class Measurement:
    what: str
    unit: str  # of time: less is better; of anything per second: more is
    run: Callable[[], float]
    peers: tuple = ()
    goal: Optional[Goal] = None  # of our own number


class Result:
    """The numbers of all rounds, ours and the peers'; None where a round has none."""

    def __init__(self, measurement):
        self.measurement = measurement
        self.ours = []
        self.theirs = {peer.name: [] for peer in measurement.peers}
        self.absences = {}  # why there is no number, by name of the peer
        self.failures = {}

    def ratio(self, name):
        """The median of the rounds' ratios: a machine that slows down for one round slows both."""
        pairs = [(here, there) for here, there in zip(self.ours, self.theirs[name])
                 if here is not None and there is not None]
        return statistics.median(here / there for here, there in pairs) if pairs else None

    def as_json(self):
        measurement = self.measurement
        ours = median(self.ours)
        return {"what": measurement.what, "unit": measurement.unit, "ours": ours,
                "rounds": self.ours, **judged(measurement.goal, ours, ""),
                "beside": [{"name": peer.name, "theirs": median(self.theirs[peer.name]),
                            "rounds": self.theirs[peer.name], "ratio": self.ratio(peer.name),
                            **judged(peer.goal, self.ratio(peer.name), "x")}
                           for peer in measurement.peers],
                "absences": self.absences, "failures": self.failures}


def median(values):
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def judged(goal, value, suffix):
    """The goal in words, and whether it was reached; None: there is no goal, or it is not known."""
    if goal is None:
        return {"goal": None, "met": None}
    return {"goal": f"{goal.words} {goal.bound:g}{suffix}",
            "met": None if value is None else goal.is_met_by(value)}


def take_rounds(measurements, count):
    """Each round measures everything once, each peer right after the measurement it is compared with."""
    results = [Result(measurement) for measurement in measurements]
    for number in range(count):
        known = {}  # numbers of this round, by unit and peer
        for result in results:
            measurement = result.measurement
            progress(f"round {number + 1} of {count}: {measurement.what}")
            result.ours.append(attempt(measurement.run, measurement.what, result))
            for peer in measurement.peers:
                key = (measurement.unit, peer.name)
                if key not in known:
                    known[key] = attempt(peer.run, peer.name, result)
                result.theirs[peer.name].append(known[key])
    progress("")
    return results


def attempt(run, name, result):
    try:
        return run()
    except Absent as reason:
        result.absences[name] = str(reason)
    except Failed as problem:
        result.failures[name] = str(problem)
    return None


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def show(report):
    for row in report["results"]:
        print(f"{row['what']:46} {quantity(row['ours'], row['unit']):>12} "
              f"{'':>7}  {verdict(row)}".rstrip())
        for peer in row["beside"]:
            print(f"    {peer['name']:42} {quantity(peer['theirs'], row['unit']):>12} "
                  f"{times(peer['ratio']):>7}  {verdict(peer)}".rstrip())
    show_gaps(report)


def show_gaps(report):
    """Why a number is missing, each reason once."""
    rows = report["results"]
    for reason in sorted({reason for row in rows for reason in row["absences"].values()}):
        print(f"\nnot measured: {reason}")
    for name, problem in sorted({item for row in rows for item in row["failures"].items()}):
        print(f"\nFAILED: {name}: {problem}")


def quantity(value, unit):
    if value is None:
        return "-"
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f} {unit}"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}x"


def verdict(row):
    if row["goal"] is None:
        return ""
    return f"{row['goal']}: {'not measured' if row['met'] is None else 'met' if row['met'] else 'NOT MET'}"
