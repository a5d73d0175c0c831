#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles everything in src and tests with every compiler that Debian 12 has, warnings as errors.

All of them check every file and generate no code (-fsyntax-only), which takes a third of the time. One compiler of each
kind and each standard library does so without precompiled headers, and so finds a missing #include. The g++ compilers then
build the libraries and the tool, without precompiled headers: the warnings of the optimiser (array-bounds,
restrict, stringop-overflow, stringop-overread) are on in these builds and off in the presets (cmake/precompiled.cmake).
g++ 13 is not in Debian 12. What it did not take were calls of functions whose names namespace std also
has, with arguments of its types: such calls are qualified.

Usage: compilers.py [--jobs N] [--only TEXT] [COMPILER...]
--only chooses the files whose path contains the text. Exits 1 when a compiler refuses something.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILERS = ["g++-11", "g++-12", "clang++-13", "clang++-14", "clang++-15", "clang++-16", "clang++-19"]
# They read the same standard library as clang++-19, which finds what a file should include.
PRECOMPILED = {"clang++-13", "clang++-14", "clang++-15", "clang++-16"}
BUILT = ["ibverbs", "rdmacm", "verbatim"]


def configure(compiler):
    """A build folder for the compiler; its commands are what we check by."""
    folder = ROOT / "build/compilers" / compiler
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
         f"-DCMAKE_C_COMPILER={compiler.replace('clang++', 'clang').replace('g++', 'gcc')}",
         "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_BUILD_TYPE=Release",
         f"-DVB_PCH={'ON' if compiler in PRECOMPILED else 'OFF'}"],
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{compiler}: cmake failed\n{done.stdout}{done.stderr}")
    return folder


def check_command(entry):
    """The command that compiles a file, without an output."""
    words = shlex.split(entry["command"])
    words = words[1:] if os.path.basename(words[0]) == "ccache" else words
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        elif word not in ("-c", "-MD", "-g1"):
            kept.append(word)
    return [*kept, "-fsyntax-only"]


def check(entry):
    done = subprocess.run(check_command(entry), cwd=entry["directory"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def precompile(folder, entries):
    """Makes the precompiled headers that the commands name."""
    headers = {word for entry in entries for word in shlex.split(entry["command"]) if word.endswith(".pch")}
    if headers:
        subprocess.run(["ninja", "-C", folder, *(os.path.relpath(header, folder) for header in headers)],
                       check=True, stdout=subprocess.DEVNULL)


def check_all(folder, only, jobs):
    """The complaints about every file, by name."""
    entries = [entry for entry in json.loads((folder / "compile_commands.json").read_text())
               if entry["file"].startswith((f"{ROOT}/src", f"{ROOT}/tests", f"{ROOT}/bench"))
               and only in entry["file"]]
    precompile(folder, entries)
    by_file = {entry["file"]: entry for entry in entries}  # some are compiled for several targets
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = pool.map(check, by_file.values())
        return len(by_file), {file: text for file, text in zip(by_file, said) if text}


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--only", default="")
    options.add_argument("compilers", nargs="*")
    options = options.parse_args()
    failed = False
    for compiler in options.compilers or COMPILERS:
        began = time.monotonic()
        folder = configure(compiler)
        count, refused = check_all(folder, options.only, options.jobs)
        verdict = f"{count} files" if not refused else f"refuses {len(refused)} of {count} files"
        if not refused and compiler.startswith("g++") and not options.only:
            targets = [f"--target={name}" for name in BUILT]
            built = subprocess.run(["cmake", "--build", folder, "-j", str(options.jobs), *targets],
                                   capture_output=True, text=True)
            verdict += ", libraries and tool built"
            if built.returncode != 0:
                refused = {"the build": built.stdout[-4000:]}
        for file, text in refused.items():
            print(f"---- {compiler}: {os.path.relpath(file, ROOT)}\n{text}", flush=True)
        failed = failed or bool(refused)
        print(f"{compiler:12} {'FAILED' if refused else 'ok':7} {verdict}, "
              f"{time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
