#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is built on Debian 12 runs with the glibc that README.md names, or a newer one.

usage: libc_test.py VERSION FILE...     VERSION: 2.35
"""
import os
import re
import subprocess
import sys

SKIPPED = 77
BUILT_WITH = (2, 36)  # Debian 12


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def needs(path):
    """The symbols of libc that the file needs, by version."""
    text = subprocess.run(["readelf", "--dyn-syms", "-W", path], check=True, capture_output=True, text=True).stdout
    return [(numbers(version), name) for name, version in re.findall(r" UND (\w+)@GLIBC_([0-9.]+)", text)]


def main():
    least, files = numbers(sys.argv[1]), sys.argv[2:]
    host = numbers(os.confstr("CS_GNU_LIBC_VERSION").split()[1])
    if host > BUILT_WITH:
        print(f"SKIPPED: built with glibc {'.'.join(map(str, host))}, not on Debian 12")
        return SKIPPED
    failures = []
    for path in files:
        found = needs(path)
        if not found:
            failures.append(f"{path}: no symbols of glibc were found in it")
        failures += [f"{path}: {name} needs glibc {'.'.join(map(str, version))}"
                     for version, name in found if version > least]
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
