#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The direct path calls no cancellation point of libc: it runs with locks held, and a thread that were
cancelled there would leave them taken. Usage: cancellation_points_test.py LIBRARY...

Static libraries. pthreads(7) lists the cancellation points; those that a layer of system calls could use:
"""
import re
import subprocess
import sys

POINTS = """accept accept4 clock_nanosleep close connect creat epoll_pwait epoll_wait fcntl fcntl64 fsync
msync nanosleep open open64 openat openat64 pause poll ppoll pread pread64 preadv preadv64 preadv2 preadv64v2
pselect pwrite pwrite64 pwritev pwritev64 pwritev2 pwritev64v2 read readv recv recvfrom recvmmsg recvmsg select
send sendmmsg sendmsg sendto sigsuspend sigwaitinfo sleep usleep wait waitid waitpid write writev
pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel sem_wait""".split()


def main(libraries):
    found = []
    for library in libraries:
        listing = subprocess.run(["nm", "-A", "-u", library], capture_output=True, text=True, check=True).stdout
        undefined = re.findall(r"^\S*?([^:/]+):\s+U (\w+)", listing, re.MULTILINE)
        if len(undefined) < 10:
            sys.exit(f"{library}: nm lists {len(undefined)} undefined symbols; is it a static library?")
        found += [f"{library}: {member} calls {symbol}" for member, symbol in undefined if symbol in POINTS]
    if found:
        sys.exit("\n".join([*found, "Use host/uncancellable.h, or the system call itself."]))


if __name__ == "__main__":
    main(sys.argv[1:])
