#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The example program under debuggers and sanitizers, directly and over packets; what they must not find is nothing
of Verbatim's, and what they must find is a mistake of the program.

Usage: debuggers_test.py --build build/release
Exit status: 0 when all is well, 1 when not, 77 when it could not be tried.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
from hosts import NOBODY, Installation  # noqa: E402

SKIPPED = 77
PATIENCE = 240
EXAMPLE = os.path.join(HERE, "../../examples/loopback.c")
WRITTEN = "vb0: written by an RDMA adapter made of software\n"
INSTALLATION = None

# Writes one octet behind memory that it has registered.
MISTAKE = """
#include <infiniband/verbs.h>
#include <stdlib.h>
int main(int count, char** words) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_pd* pd = ibv_alloc_pd(ibv_open_device(list[0]));
  char* memory = malloc(100);
  (void)words;
  if (ibv_reg_mr(pd, memory, 100, IBV_ACCESS_LOCAL_WRITE) == NULL) return 2;
  memory[99 + count] = 1;
  return memory[99 + count] == 7;
}
"""

# Ends with its device open: by a return, by a crash, or when a command has ended.
OPEN_END = """
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** words) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (ibv_open_device(list[0]) == NULL) return 2;
  if (count == 1) return 0;
  if (strcmp(words[1], "crash") == 0) abort();
  return system(words[1]) != 0;
}
"""
# Octets. The files that processes share are larger, with holes.
MEMORY_MAX = 1 << 30
# Runs a program, and prints the most KiB of memory that it had.
MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"needs {program}")


class Watched(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mistake = os.path.join(INSTALLATION.folder, "mistake.c")
        cls.open_end = os.path.join(INSTALLATION.folder, "open_end.c")
        for path, source in ((cls.mistake, MISTAKE), (cls.open_end, OPEN_END)):
            with open(path, "w", encoding="utf-8") as text:
                text.write(source)

    def compile(self, *options, source=EXAMPLE, compiler="gcc"):
        program = os.path.join(INSTALLATION.folder, f"program-{self.id().rsplit('.', 1)[-1]}")
        words = [compiler, "-g", *options, "-o", program, source, "-libverbs"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"{' '.join(words)}: {done.stderr.strip()}")
        return program

    def run_on_adapter(self, *words, folder="/", **environment):
        return subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *NOBODY, INSTALLATION.command, "run", *words],
            capture_output=True, text=True, timeout=PATIENCE, cwd=folder,
            env={**os.environ, "VERBATIM_DEVICES": "lo", "HOME": "/", **environment})

    def expect_success(self, *words, **environment):
        for path in ("auto", "packet"):
            done = self.run_on_adapter(*words, VERBATIM_PATH=path, **environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(WRITTEN, done.stdout, done.stderr)

    def expect_overflow(self, *words, **environment):
        done = self.run_on_adapter(*words, **environment)
        self.assertIn("heap-buffer-overflow", done.stderr)

    def test_address_sanitizer_with_a_shared_runtime(self):
        program = self.compile("-fsanitize=address")
        self.expect_success(program)
        # A script of tests, which is no such program, starts one.
        self.expect_success("sh", "-c", program)
        self.expect_success("sh", "-c", program, ASAN_OPTIONS="detect_leaks=1")

    def test_address_sanitizer_with_a_static_runtime(self):
        self.expect_success(self.compile("-fsanitize=address", "-static-libasan"))

    def test_address_sanitizer_finds_what_the_program_does_wrong(self):
        program = self.compile("-fsanitize=address", source=self.mistake)
        self.expect_overflow(program)
        self.expect_overflow("sh", "-c", program)

    @needs("clang")
    def test_address_sanitizer_of_clang(self):
        self.expect_success(self.compile("-fsanitize=address", compiler="clang"))

    @needs("clang")
    def test_address_sanitizer_of_clang_with_a_shared_runtime(self):
        program = self.compile("-fsanitize=address", "-shared-libasan", compiler="clang")
        name = f"libclang_rt.asan-{os.uname().machine}.so"
        found = subprocess.run(["clang", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        if not os.path.isabs(found):
            self.skipTest(f"clang has no {name} here")
        self.expect_success(program, LD_LIBRARY_PATH=os.path.dirname(found))

    def test_undefined_behaviour_sanitizer(self):
        self.expect_success(self.compile("-fsanitize=undefined", "-fno-sanitize-recover=all"))

    def test_thread_sanitizer_that_is_told_of_the_libraries_locks(self):
        suppressions = os.path.join(INSTALLATION.folder, "suppressions")
        with open(suppressions, "w", encoding="utf-8") as text:
            text.write("called_from_lib:libibverbs.so.1\n")
        self.expect_success(self.compile("-fsanitize=thread"), TSAN_OPTIONS=f"suppressions={suppressions}")

    @needs("valgrind")
    def test_valgrind(self):
        # It has no numbers of newer system calls, and says so; it counts no errors.
        self.expect_success("valgrind", "--error-exitcode=9", self.compile())

    @needs("valgrind")
    def test_valgrind_beside_another_process(self):
        """The second process of a host gives the sockets of the port a program."""
        first = self.compile(source=self.open_end)
        os.rename(first, first + "-first")
        self.expect_success(first + "-first", f"valgrind --error-exitcode=9 {self.compile()}")

    # Tools that read all memory that is listed as readable would fill the holes of the files that processes share.

    @needs("valgrind")
    def test_valgrind_at_the_end_of_a_program_with_an_open_device(self):
        done = self.run_on_adapter("/usr/bin/python3", "-c", MEASURE, "valgrind", "--error-exitcode=9",
                                   self.compile(source=self.open_end))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(int(done.stdout) << 10, MEMORY_MAX)

    def expect_small_core(self, *words):
        folder = tempfile.mkdtemp(dir=INSTALLATION.folder)
        os.chmod(folder, 0o777)
        done = self.run_on_adapter(*words, folder=folder)
        cores = [os.stat(os.path.join(folder, name)) for name in os.listdir(folder)]
        self.assertEqual(len(cores), 1, done.stdout + done.stderr)
        self.assertLess(cores[0].st_size, MEMORY_MAX)

    def test_a_crash_writes_a_small_core(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as text:
            if text.read()[0] in "|/@":
                self.skipTest("cores are not written to the working directory here")
        # 2 GiB at most, also where the test fails.
        self.expect_small_core("/usr/bin/python3", "-c", "import os, resource, sys\n"
                               "resource.setrlimit(resource.RLIMIT_CORE, (2 << 30, 2 << 30))\n"
                               "os.execv(sys.argv[1], sys.argv[1:])", self.compile(source=self.open_end), "crash")

    @needs("gdb")
    def test_gdb_writes_a_small_core(self):
        self.expect_small_core("gdb", "-batch", "-ex", "run crash", "-ex", "generate-core-file",
                               self.compile(source=self.open_end))

    @needs("gdb")
    def test_gdb(self):
        program = self.compile()
        self.expect_success("gdb", "-batch", "-ex", "run", program)
        done = self.run_on_adapter("gdb", "-batch", "-ex", "break ibv_post_send", "-ex", "run", "-ex", "backtrace",
                                   "-ex", "continue", program)
        self.assertRegex(done.stdout, r"#1 .* in main \(\)", done.stderr)
        self.assertIn(WRITTEN, done.stdout, done.stderr)


def main():
    global INSTALLATION
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    given, rest = options.parse_known_args()
    if os.geteuid() != 0 or not shutil.which("gcc") or not os.path.exists("/usr/include/infiniband/verbs.h"):
        print("SKIPPED: needs root, for the namespaces, gcc and libibverbs-dev")
        return SKIPPED
    INSTALLATION = Installation(given.build)
    try:
        result = unittest.main(argv=sys.argv[:1] + rest, exit=False).result
        return 0 if result.wasSuccessful() else 1
    finally:
        INSTALLATION.remove()


if __name__ == "__main__":
    sys.exit(main())
