#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts bugs into a copy of the code, one at a time, and checks whether the tests notice.

The bugs are the entries of tests/mutants/*.txt. Each names a file, the text to replace and the text
to put there; the old text must stand in the file exactly once, so that an entry that the code has
outgrown is an error and not a bug that is never tried. The work tree is never touched.

Usage: mutants.py [--build DIR] [--histories N] [--share K/N] [--first] [--list] [NAME...]
--share 2/4 tries the second quarter of them: four of these, each with a build folder of its own, run side by side.
--first ends the attempts at a mutant with the first program that notices it; the others are shown as not run.
A NAME chooses the mutants whose names contain it. Exits 1 when a mutant survives or does not fit.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "tests", "scripts", "bench"]
SIM_PROGRAMS = ["scenario_test", "history_test"]
TIMEOUT_SECONDS = 120  # a mutant that hangs is caught as well


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    old: str
    new: str


class Misfit(Exception):
    """An entry that cannot be tried."""


def parse(path):
    """Entries are separated by empty lines: `name:`, `file:`, then lines of old (-) and new (+)."""
    for entry in re.split(r"\n\s*\n", path.read_text()):
        fields, old, new = {}, [], []
        for line in entry.splitlines():
            if line.startswith("#"):
                continue
            if line.startswith(("-", "+")):
                (old if line[0] == "-" else new).append(line[1:])
                continue
            key, colon, value = line.partition(":")
            if not colon or key not in ("name", "file"):
                raise Misfit(f"{path.name}: cannot read the line '{line}'")
            fields[key] = value.strip()
        if not fields and not old:
            continue
        if set(fields) != {"name", "file"} or not old:
            raise Misfit(f"{path.name}: an entry lacks its name, file or old text: {fields}")
        yield Mutant(fields["name"], fields["file"], "\n".join(old), "\n".join(new))


def read_mutants():
    mutants = []
    for path in sorted((ROOT / "tests/mutants").glob("*.txt")):
        mutants += parse(path)
    names = [mutant.name for mutant in mutants]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise Misfit(f"names that stand twice: {sorted(doubled)}")
    return mutants


def copy_tree(to):
    """Makes `to` equal to the work tree; files that have not changed keep their time."""
    wanted = set()
    for top in COPIED:
        source = ROOT / top
        files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
        for file in files:
            if "__pycache__" in file.parts:
                continue
            copy = to / file.relative_to(ROOT)
            wanted.add(copy)
            if copy.exists() and copy.read_bytes() == file.read_bytes():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    for stale in [p for p in to.rglob("*") if p.is_file() and p not in wanted]:
        stale.unlink()


def original_of(mutant, tree):
    """The text of the file, in which the mutant's old text stands once."""
    path = tree / mutant.file
    original = path.read_text() if path.exists() else ""
    count = original.count(mutant.old)
    if count != 1:
        raise Misfit(f"{mutant.name}: its text stands {count} times in {mutant.file}")
    return original


def share(text):
    """`K/N` as (K, N)."""
    fits = re.fullmatch(r"(\d+)/(\d+)", text)
    if not fits or not 1 <= int(fits[1]) <= int(fits[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is not K/N with K from 1 to N")
    return int(fits[1]), int(fits[2])


class Suite:
    def __init__(self, tree, build, histories):
        self.tree = tree
        self.build = build
        self.environment = dict(os.environ, VERBATIM_HISTORIES=str(histories))

    def configure(self):
        # A build type of its own: no debug information, which takes most of the time of a link. No
        # warnings: a bug may leave a variable unused, which is not what this program checks.
        self._run(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja",
                   "-DCMAKE_BUILD_TYPE=Mutant", "-DCMAKE_CXX_FLAGS=-O1 -w"])

    def compile(self, unit_programs):
        self._run(["ninja", "-C", self.build, *unit_programs, *SIM_PROGRAMS])

    def _run(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Misfit("does not build:\n" + done.stdout[-3000:])

    def failure_of(self, program):
        """The first failure that the program prints; empty when it passes."""
        command = [self.build / "tests" / program, "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  errors="replace", timeout=TIMEOUT_SECONDS, env=self.environment)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode == 0:
            return ""
        complaint = re.search(r'complaint\n\s+Which is: "(.*)"', done.stdout)
        if complaint:
            return complaint[1]
        test = re.search(r"\[  FAILED  \] (\S+?),? ", done.stdout + " ")
        if test:
            return test[1]
        return (done.stdout.strip().splitlines() or ["crashes"])[-1]


def unit_programs_for(mutant):
    """The tests of its own layer, and those of the transport, which uses all the others but cm and fabric."""
    layer = mutant.file.split("/")[1]
    if layer == "cm":
        return ["cm_test", "cm_sim_test"]
    if layer == "fabric":
        return ["fabric_test", "fabric_history_test"]
    if layer == "sim":
        return []
    layers = [layer, *({"transport"} - {layer})]
    return [f"{name}_test" for name in layers] + [f"{name}_race_test" for name in layers if has_races(name)]


def has_races(layer):
    """Whether the layer has a program of races (cmake/layers.cmake)."""
    return "RACES" in (ROOT / "src" / layer / "CMakeLists.txt").read_text()


def try_one(mutant, suite, first_only):
    """What the unit tests, the scenarios and the histories said; None for a program that was not run."""
    path = suite.tree / mutant.file
    original = original_of(mutant, suite.tree)
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        programs = unit_programs_for(mutant)
        suite.compile(programs)
        unit = ""
        for program in programs:
            unit = suite.failure_of(program)
            if unit:
                break
        found = [unit]
        for program in SIM_PROGRAMS:
            found.append(None if first_only and any(found) else suite.failure_of(program))
        return found
    finally:
        path.write_text(original)


def list_all(mutants):
    misfits = []
    for mutant in mutants:
        print(f"{mutant.name:40} {mutant.file}")
        try:
            original_of(mutant, ROOT)
        except Misfit as misfit:
            misfits.append(misfit)
    for misfit in misfits:
        print(f"mutants.py: {misfit}; its entry in tests/mutants has to follow the code",
              file=sys.stderr)
    return 1 if misfits else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--share", type=share, default=(1, 1), metavar="K/N")
    parser.add_argument("--first", action="store_true",
                        help="stop at the first program that notices a mutant")
    parser.add_argument("--list", action="store_true",
                        help="only say which there are, and which do not fit")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()

    mutants = read_mutants()
    if options.names:
        mutants = [m for m in mutants if any(name in m.name for name in options.names)]
    number, shares = options.share
    mutants = mutants[number - 1::shares]
    if options.list:
        return list_all(mutants)

    suite = Suite(options.build / "tree", options.build / "build", options.histories)
    copy_tree(suite.tree)
    for mutant in mutants:  # all entries are checked before the first build
        original_of(mutant, suite.tree)
    suite.configure()
    unit_programs = sorted({program for m in mutants for program in unit_programs_for(m)})
    suite.compile(unit_programs)
    for program in unit_programs + SIM_PROGRAMS:
        if failure := suite.failure_of(program):
            print(f"the code itself fails {program}: {failure}", file=sys.stderr)
            return 1

    survivors = []
    print(f"{'mutant':40} | {'unit tests':52} | {'scenarios':40} | histories")
    for mutant in mutants:
        began = time.monotonic()
        found = try_one(mutant, suite, options.first)
        unit, scenarios, histories = ("not run" if what is None else what[:52] or "-"
                                      for what in found)
        verdict = "" if any(found) else "   SURVIVES"
        took = time.monotonic() - began
        print(f"{mutant.name:40} | {unit:52} | {scenarios[:40]:40} | {histories}{verdict}"
              f" ({took:.0f} s)", flush=True)
        if not any(found):
            survivors.append(mutant.name)
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants caught")
    for name in survivors:
        print(f"SURVIVES: {name}")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Misfit as misfit:
        print(f"mutants.py: {misfit}", file=sys.stderr)
        sys.exit(1)
