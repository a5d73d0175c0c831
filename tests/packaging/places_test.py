#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Places with less than a whole host: sandboxes like a container's, kernels without a feature, full or closed
file systems. In each, two processes of perftest on one host as an ordinary user, and the doctor.

Usage: places_test.py --build build/release
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
from hosts import NOBODY, Installation  # noqa: E402

SKIPPED = 77
PATIENCE = 90
INSTALLATION = None

# perftest for three seconds; in the middle, what the processes do.
STREAM = """
"$0" run ib_write_bw -D 3 >/dev/null 2>&1 &
for i in 1 2 3 4 5 6 7 8; do
  sleep 0.5
  "$0" run ib_write_bw -D 3 127.0.0.1 >&2 && break
done &
sleep 2.5
"$0" stat --json
wait
"""


class Place:
    """`set_up` is done as root in namespaces of its own, then `around` is put before the program's words."""

    def __init__(self, set_up="true", around=(), before=(), **environment):
        self.set_up, self.around, self.before, self.environment = set_up, list(around), list(before), environment

    def run(self, *words):
        return subprocess.run(
            [*self.before, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", f'ip link set lo up && {self.set_up} && exec "$@"', "sh", *NOBODY, *self.around, *words],
            capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "VERBATIM_DEVICES": "lo", **self.environment})

    def doctor(self):
        """(exit status, findings by subject)."""
        done = self.run(INSTALLATION.command, "doctor", "--json")
        return done.returncode, {one["subject"]: one for one in json.loads(done.stdout)}

    def stream(self):
        done = self.run("sh", "-c", STREAM, INSTALLATION.command)
        return done, json.loads(done.stdout)["processes"] if done.stdout else []


def without(*calls):
    return Place(around=["/usr/bin/python3", os.path.join(HERE, "seccomp.py"), *calls, "--"])


class Places(unittest.TestCase):
    def expect_stream(self, place, path="direct", backing="shared_octets"):
        done, processes = place.stream()
        self.assertRegex(done.stderr, r"(?m)^ 65536 ", done.stderr)
        self.assertEqual(len(processes), 2, done.stdout)
        for process in processes:
            self.assertEqual([qp["path"] for qp in process["queue_pairs"]], [path], process)
            self.assertGreater(process["memory"][backing], 0, process)

    def expect_doctor(self, place, **grades):
        """Findings that are not the same as on a whole host; no other is a problem."""
        status, findings = place.doctor()
        for subject, grade in grades.items():
            found = next(one for name, one in findings.items() if name.replace(" ", "_").replace("/", "_") == subject)
            self.assertEqual(found["grade"], grade, found)
        problems = {name for name, one in findings.items() if one["grade"] == "problem"}
        self.assertEqual(status, 1 if problems else 0)
        if "problem" not in grades.values():
            self.assertEqual(problems, set(), findings)
        return findings

    def test_a_whole_host(self):
        place = Place()
        self.expect_doctor(place, kernel="ok")
        self.expect_stream(place)

    def test_the_seccomp_profile_of_a_container(self):
        place = without("docker")
        self.expect_doctor(place, userfaultfd="warning")
        self.expect_stream(place, backing="cma_octets")  # memory does not move; peers use system calls

    def test_that_of_an_older_container(self):
        place = without("docker-old")
        self.expect_doctor(place, userfaultfd="warning", epoll_pwait2="warning", membarrier="warning")
        self.expect_stream(place, backing="cma_octets")

    def test_a_kernel_without_trains_out(self):
        place = without("gso")
        place.environment["VERBATIM_PATH"] = "packet"
        self.expect_doctor(place, UDP_GSO="warning")
        self.expect_stream(place, path="packets", backing="cma_octets")

    def test_a_kernel_without_trains_in(self):
        place = without("gro")
        place.environment["VERBATIM_PATH"] = "packet"
        self.expect_doctor(place, UDP_GRO="warning")
        self.expect_stream(place, path="packets", backing="cma_octets")

    def test_a_kernel_without_short_waits(self):
        place = without("epoll_pwait2")
        self.expect_doctor(place, epoll_pwait2="warning")
        self.expect_stream(place)

    def test_a_kernel_without_membarrier(self):
        place = without("membarrier")
        self.expect_doctor(place, membarrier="warning")
        self.expect_stream(place)

    def test_a_kernel_without_userfaultfd(self):
        place = without("userfaultfd")
        self.expect_doctor(place, userfaultfd="warning")
        self.expect_stream(place, backing="cma_octets")

    def test_a_kernel_without_memory_files_is_refused_with_a_message(self):
        place = without("memfd_create")
        self.expect_doctor(place, memfd_create="problem")
        done = place.run(INSTALLATION.command, "run", "ib_write_bw")
        self.assertIn("memfd_create", done.stderr)

    def test_a_kernel_without_seals_is_refused_with_a_message(self):
        place = without("seals")
        self.expect_doctor(place, memfd_create="problem")
        done = place.run(INSTALLATION.command, "run", "ib_write_bw")
        self.assertIn("memfd_create", done.stderr)

    def test_a_sandbox_without_netlink_is_told_to_allow_it(self):
        place = without("netlink")
        for devices in ("lo", ""):
            place.environment["VERBATIM_DEVICES"] = devices
            findings = self.expect_doctor(place, devices="problem")
            self.assertIn("AF_NETLINK", findings["devices"]["what"])
            self.assertNotIn("configuration", findings)
        place.environment["VERBATIM_DEVICES"] = "lo"
        done = place.run(INSTALLATION.command, "run", "ib_write_bw")
        self.assertIn("AF_NETLINK", done.stderr)
        self.assertNotIn("'lo'", done.stderr)

    def test_without_proc_nothing_is_started(self):
        place = Place("mount -t tmpfs tmpfs /proc")
        done = place.run(INSTALLATION.command, "run", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("mount /proc", done.stderr)
        self.assertEqual(self.expect_doctor(place, library="problem")["library"]["advice"], "mount /proc")

    def test_two_containers_with_a_common_network_and_directory(self):
        """As two containers of one pod: processes and mounts of their own."""
        script = """
            container() {
              unshare --mount --pid --ipc --fork --kill-child --mount-proc \\
                sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh "$@"
            }
            ip link set lo up && mount -t tmpfs -o mode=1777 tmpfs /mnt || exit 1
            command=$1; shift
            container "$@" "$command" run ib_write_bw -D 3 >/dev/null 2>&1 &
            for i in 1 2 3 4 5 6 7 8; do
              sleep 0.5
              container "$@" sh -c '"$0" run ib_write_bw -D 3 127.0.0.1 >&2 &
                for i in 1 2 3 4 5 6 7 8; do sleep 0.4; "$0" stat --json; done; wait $!' "$command" && break
            done
            wait
        """
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh",
             INSTALLATION.command, *NOBODY], capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "VERBATIM_DEVICES": "lo", "VERBATIM_DIR": "/mnt/vb"})
        self.assertRegex(done.stderr, r"(?m)^ 65536 ", done.stderr)
        # Before the first request, the path is undecided.
        paths = set(re.findall(r'"path": "(direct|packets|both)"', done.stdout))
        self.assertEqual(paths, {"packets"}, done.stdout)

    def test_a_read_only_root(self):
        place = Place("mount --bind / /mnt && mount -o remount,bind,ro /mnt && mount --rbind /dev /mnt/dev && "
                      "mount -t tmpfs tmpfs /mnt/dev/shm && mount -t proc proc /mnt/proc",
                      before=[], around=[])
        # Only /dev/shm can be written.
        place.set_up += f" && mount --bind {INSTALLATION.folder} /mnt{INSTALLATION.folder}"
        place.set_up += " && set -- chroot /mnt \"$@\""
        self.expect_doctor(place, directory="ok")
        self.expect_stream(place)

    def test_nothing_can_be_written_at_all(self):
        place = Place("mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && "
                      "mount -t tmpfs -o ro tmpfs /dev/shm")
        findings = self.expect_doctor(place, directory="problem")
        self.assertIn("VERBATIM_DIR", findings["directory"]["what"])
        done = place.run(INSTALLATION.command, "run", "ib_write_bw")
        self.assertIn("VERBATIM_DIR", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_64_mebibytes_of_shared_memory(self):
        place = Place("mount -t tmpfs -o size=64m tmpfs /dev/shm")
        self.expect_doctor(place, directory="ok")
        self.expect_stream(place)

    def test_a_user_namespace(self):
        place = Place(around=["unshare", "--user", "--map-root-user"])
        if place.run("true").returncode != 0:
            self.skipTest("this kernel gives ordinary users no user namespace")
        # Both processes must be in one: the whole stream is.
        self.expect_doctor(place, directory="ok")
        self.expect_stream(place)

    def make_group(self, octets):
        """A memory group with this limit; its folder."""
        for root, limit in (("/sys/fs/cgroup", "memory.max"),
                            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            group = os.path.join(root, f"verbatim-test-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            self.addCleanup(os.rmdir, group)
            if not os.path.exists(os.path.join(group, limit)):
                continue  # no file system of groups, or without memory
            with open(os.path.join(group, limit), "w") as file:
                file.write(str(octets))
            return group
        self.skipTest("no memory group can be made here")

    def in_group(self, group):
        return ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]

    def test_a_group_with_little_memory(self):
        place = Place(before=self.in_group(self.make_group(64 << 20)))
        findings = self.expect_doctor(place, directory="ok")
        self.assertIn("of 64 MiB", findings["memory group"]["what"])
        self.expect_stream(place)

    def test_a_group_that_is_almost_full(self):
        group = self.make_group(128 << 20)
        taker = subprocess.Popen([*self.in_group(group), "/usr/bin/python3", "-c",
                                  "taken = b'x' * (118 << 20); print('taken', flush=True); __import__('sys').stdin.read()"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(taker.stdout.readline(), "taken\n")
            findings = self.expect_doctor(Place(before=self.in_group(group)), memory_group="warning")
            self.assertIn("of 128 MiB", findings["memory group"]["what"])
        finally:
            taker.communicate()


def main():
    global INSTALLATION
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    given, rest = options.parse_known_args()
    if os.geteuid() != 0 or not shutil.which("ib_write_bw"):
        print("SKIPPED: needs root, for the namespaces, and perftest")
        return SKIPPED
    INSTALLATION = Installation(given.build)
    try:
        result = unittest.main(argv=sys.argv[:1] + rest, exit=False).result
        return 0 if result.wasSuccessful() else 1
    finally:
        INSTALLATION.remove()


if __name__ == "__main__":
    sys.exit(main())
