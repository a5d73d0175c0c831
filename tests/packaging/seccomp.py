#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Executes a program under a seccomp filter that refuses some system calls, as a container or an older kernel does.

Usage: seccomp.py REFUSAL... -- PROGRAM [ARGUMENT...]
A refusal is a name of REFUSALS below. Needs no root.
"""
import ctypes
import errno
import os
import platform
import struct
import sys

# Numbers of system calls: x86-64, arm64.
NUMBERS = {
    "add_key": (248, 217), "bpf": (321, 280), "clone3": (435, 435), "epoll_pwait2": (441, 441),
    "fanotify_init": (300, 262), "fcntl": (72, 25), "io_uring_setup": (425, 425), "kcmp": (312, 272), "keyctl": (250, 219),
    "membarrier": (324, 283), "memfd_create": (319, 279), "mount": (165, 40), "move_pages": (279, 239),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "request_key": (249, 218), "setns": (308, 268), "setsockopt": (54, 208),
    "socket": (41, 198),
    "syslog": (103, 116), "unshare": (272, 97), "userfaultfd": (323, 282),
}
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
AF_NETLINK, F_ADD_SEALS = 16, 1033

# What Docker's default profile refuses to a container without capabilities, of the calls that a program could want
# (as of Docker 24; on kernels before 4.8 it refuses the process_vm calls and ptrace as well). It is a list of what is
# allowed; here is what is not.
DOCKER = [(name, errno.EPERM, None) for name in (
    "add_key", "bpf", "fanotify_init", "io_uring_setup", "kcmp", "keyctl", "mount", "move_pages", "open_by_handle_at",
    "perf_event_open", "pidfd_getfd", "process_madvise", "quotactl", "request_key", "setns", "syslog", "unshare",
    "userfaultfd")] + [("clone3", errno.ENOSYS, None)]
REFUSALS = {
    "docker": DOCKER,
    "docker-old": DOCKER + [(name, errno.EPERM, None) for name in (
        "process_vm_readv", "process_vm_writev", "ptrace", "epoll_pwait2", "membarrier")],
    "gso": [("setsockopt", errno.ENOPROTOOPT, {1: SOL_UDP, 2: UDP_SEGMENT})],
    "gro": [("setsockopt", errno.ENOPROTOOPT, {1: SOL_UDP, 2: UDP_GRO})],
    "netlink": [("socket", errno.EAFNOSUPPORT, {0: AF_NETLINK})],  # as RestrictAddressFamilies= of systemd
    "seals": [("fcntl", errno.EINVAL, {1: F_ADD_SEALS})],
    **{name: [(name, errno.ENOSYS, None)] for name in NUMBERS
       if name not in ("fcntl", "setsockopt", "socket")},
}

LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("<HBBI", code, if_true, if_false, value)


def program(refusals):
    """The number of the call is at 0, its arguments are at 16, 24, ..."""
    column = ("x86_64", "aarch64").index(platform.machine())
    code = [instruction(LOAD_WORD, 0)]
    for name, error, arguments in refusals:
        number = NUMBERS[name][column]
        # Each argument that has to be equal is two instructions; then the refusal, and the number again.
        code.append(instruction(JUMP_IF_EQUAL, number, 0, 2 * len(arguments or ()) + 2))
        for left, (index, value) in reversed(list(enumerate(reversed((arguments or {}).items())))):
            code += [instruction(LOAD_WORD, 16 + 8 * index), instruction(JUMP_IF_EQUAL, value, 0, 2 * left + 1)]
        code += [instruction(RETURN, REFUSE | error), instruction(LOAD_WORD, 0)]
    return code + [instruction(RETURN, ALLOW)]


class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def confine(names):
    code = program([refusal for name in names for refusal in REFUSALS[name]])
    filter_program = FilterProgram(len(code), b"".join(code))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privs, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(set_no_new_privs, 1, 0, 0, 0) != 0 or \
            libc.prctl(set_seccomp, filter_mode, ctypes.byref(filter_program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    end = sys.argv.index("--")
    confine(sys.argv[1:end])
    os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
