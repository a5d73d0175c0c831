#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A drop-in library exports what programs and provider libraries bind to, and nothing else. It has no
static variable that a forked child could wait for.

usage: symbols_test.py NAME path/to/library NAME.symbols [--any-needed]
"""
import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """name@NODE (name@@NODE for the default version) of every symbol the library defines."""
    lines = output_of("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines()
    fields = [line.split() for line in lines]
    return {f[2] for f in fields if f[1] != "A"}  # A: the version nodes themselves


def nodes(library):
    text = output_of("readelf", "-VW", library)
    definitions = text[text.index("Version definition section"):]
    return set(re.findall(r"Name: ([A-Z]\S*)", definitions.split("Version needs section")[0]))


def guarded_statics(library):
    """Static variables of functions that are initialised at their first use, behind a guard. A child
    that is forked meanwhile would wait for the guard for ever: see src/base/process_wide.h."""
    text = output_of("nm", "-C", library)
    return sorted(re.findall(r"guard variable for (verbatim::.*)", text))


def main():
    name, library, list_path, *options = sys.argv[1:]
    with open(list_path, encoding="utf-8") as lines:
        wanted = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    have = exported(library)
    failures = [f"missing: {symbol}" for symbol in sorted(wanted - have)]
    failures += [f"exported, but not in the list: {symbol}" for symbol in sorted(have - wanted)]
    named = {symbol.rsplit("@", 1)[1] for symbol in wanted}
    failures += [f"no version node {node}" for node in sorted(named - nodes(library))]
    dynamic = output_of("readelf", "-dW", library)
    if f"[{name}]" not in dynamic:
        failures.append(f"its name is not {name}")
    if "NODELETE" not in dynamic:
        failures.append("it can be unloaded")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    if "--any-needed" not in options:  # a sanitizer brings its own
        strangers = sorted(n for n in needed if not re.match(r"(libc\.so|ld-linux)", n))
        failures += [f"needs {stranger}" for stranger in strangers]
    failures += [f"a static variable that a thread may be initialising during a fork: {variable}"
                 for variable in guarded_statics(library)]
    print("\n".join(failures) or f"{len(have)} symbols")
    return 1 if failures else 0


sys.exit(main())
