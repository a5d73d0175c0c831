#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of src/ by src/LAYERS. Usage: check_layers.py path/to/src"""
import pathlib
import re
import sys

IMPURE = re.compile(r'<(sys/|net|arpa/|linux/|unistd\.h|thread|poll\.h|fcntl\.h|time\.h|ctime)')
# A pure layer may ask the system only for the features of the CPU, which on Arm only the kernel knows,
# and for the sleep of a thread that waits for a lock.
ALLOWED = {('base/acquire.cc', '<sys/auxv.h>'), ('wire/crc/crc32_arm.cc', '<sys/auxv.h>'),
           ('base/futex.cc', '<linux/futex.h>'), ('base/futex.cc', '<sys/syscall.h>'),
           ('base/futex.cc', '<unistd.h>')}
CLOCK = re.compile(r'_clock::now|clock_gettime|random_device')
# The libraries may be in a set-user-ID program, which must not obey its caller's environment.
ENVIRONMENT = re.compile(r'\bgetenv\s*\(')


def read_layers(path):
    layers = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith('#'):
            continue
        name, uses, kind = (part.strip() for part in line.split(':'))
        for used in uses.split():
            if used not in layers:
                sys.exit(f'{path}: {name} uses {used}, which is not listed above it')
        layers[name] = (set(uses.split()), kind)
    return layers


def problems(src):
    layers = read_layers(src / 'LAYERS')
    for folder in sorted(p for p in src.iterdir() if p.is_dir()):
        if folder.name not in layers:
            yield f'{folder}: not in {src}/LAYERS'
            continue
        uses, kind = layers[folder.name]
        for file in sorted(folder.rglob('*')):
            if file.suffix not in ('.h', '.cc'):
                continue
            is_test = file.stem.endswith(('_test', '_fuzz'))
            for number, line in enumerate(file.read_text().splitlines(), 1):
                include = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
                if include and include[1] not in uses | {folder.name}:
                    yield f'{file}:{number}: {folder.name} may not include {include[1]}/ (src/LAYERS)'
                if ENVIRONMENT.search(line) and folder.name != 'tools' and not is_test:
                    yield f'{file}:{number}: use environment_variable() of base/environment.h, not getenv'
                if kind == 'pure' and not is_test:
                    header = re.match(r'\s*#\s*include\s*(<[^>]*>)', line)
                    allowed = header and (file.relative_to(src).as_posix(), header[1]) in ALLOWED
                    if header and IMPURE.search(line) and not allowed:
                        yield f'{file}:{number}: {folder.name} is pure and does no I/O: {line.strip()}'
                    if CLOCK.search(line):
                        yield f'{file}:{number}: {folder.name} is pure and reads no clock'


if __name__ == '__main__':
    found = list(problems(pathlib.Path(sys.argv[1])))
    print('\n'.join(found), end='\n' if found else '')
    sys.exit(1 if found else 0)
