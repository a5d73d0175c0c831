#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` makes works below any prefix, can be moved, and is seen by no program that
`verbatim run` has not started. Needs no root; as root, the programs run as an ordinary user.

Usage: install_test.py --build build/release
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
LIBRARIES = ("libibverbs.so.1", "librdmacm.so.1", "libverbatim-preload.so", "fabric/libibumad.so.3")
COMMANDS = ("run", "devices", "doctor", "stat", "demo", "sim")
FABRIC_COMMANDS = ("up", "run", "down", "list", "link", "node", "switch", "loss", "capture", "show")
# What the process of the fabric reads itself, so that the console knows it, too.
WORDS_OF_FABRIC_COMMANDS = {"capture": {"--for", "--count"}}
BUILD, PREFIX = "", ""


def run(*words, **environment):
    """As an ordinary user. As root, in a network of its own, where no other program has the port."""
    user = []
    if os.geteuid() == 0:
        user = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
                "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("LD_", "VERBATIM_"))}
    return subprocess.run([*user, *words], capture_output=True, text=True, timeout=120, cwd="/",
                          env={**kept, "VERBATIM_DEVICES": "lo", **environment})


def version():
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as text:
        return re.search(r"project\(verbatim VERSION (\S+)", text.read())[1]


def options_of(*words):
    """The options of a command. Each begins a line of its help; the text behind it may name others."""
    help_text = run(os.path.join(PREFIX, "bin/verbatim"), *words, "--help").stdout
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z0-9-]+)", help_text, re.M))


def temporary_folder(test):
    folder = tempfile.mkdtemp(prefix="verbatim-install-")
    test.addCleanup(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    return folder


class Installed(unittest.TestCase):
    def command(self, *words, at=None, **environment):
        return run(os.path.join(at or PREFIX, "bin/verbatim"), *words, **environment)

    def test_the_libraries_are_in_a_folder_of_their_own_and_nothing_else_is_beside_it(self):
        self.assertEqual(os.listdir(os.path.join(PREFIX, "bin")), ["verbatim"])
        self.assertEqual(os.listdir(os.path.join(PREFIX, "lib")), ["verbatim"])
        folder = os.path.join(PREFIX, "lib/verbatim")
        files = [os.path.relpath(os.path.join(path, file), folder)
                 for path, _, files in os.walk(folder) for file in files]
        self.assertEqual(sorted(files), sorted(LIBRARIES))
        self.assertEqual(sorted(os.listdir(PREFIX)), ["bin", "lib", "share"])

    def test_the_version_is_the_projects_in_the_command_and_in_each_library(self):
        self.assertEqual(self.command("--version").stdout, f"verbatim {version()}\n")
        for library in LIBRARIES:
            path = os.path.join(PREFIX, "lib/verbatim", library)
            with open(path, "rb") as file:
                self.assertIn(b"Verbatim\0\0\0\0" + version().encode() + b"\0", file.read(4096), path)

    def test_the_command_knows_no_folder_of_the_build(self):
        dynamic = run("readelf", "-dW", os.path.join(PREFIX, "bin/verbatim")).stdout
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")

    def test_devices_are_listed(self):
        done = self.command("devices")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("127.0.0.1", done.stdout)

    def test_programs_get_its_libraries(self):
        done = self.command("run", "sh", "-c", "echo $LD_PRELOAD; grep -o '/.*/libibverbs.*' /proc/self/maps")
        preload, *mapped = done.stdout.splitlines()
        self.assertIn(os.path.join(PREFIX, "lib/verbatim/libibverbs.so.1"), preload, done.stderr)
        self.assertEqual(set(mapped), {os.path.join(PREFIX, "lib/verbatim/libibverbs.so.1")})

    def test_programs_that_it_did_not_start_do_not(self):
        program = shutil.which("ibv_devices") or shutil.which("ib_write_bw")
        if not program:
            self.skipTest("needs ibv_devices")
        self.assertNotIn(PREFIX, run("ldd", program).stdout)

    def test_the_whole_can_be_moved(self):
        moved = os.path.join(temporary_folder(self), "elsewhere")
        shutil.copytree(PREFIX, moved, symlinks=True)
        done = self.command("run", "sh", "-c", "echo $LD_LIBRARY_PATH", at=moved)
        self.assertEqual(done.stdout, os.path.join(moved, "lib/verbatim") + "\n", done.stderr)

    def test_a_link_to_the_command_is_followed(self):
        link = os.path.join(temporary_folder(self), "verbatim")
        os.symlink(os.path.join(PREFIX, "bin/verbatim"), link)
        self.assertEqual(run(link, "run", "sh", "-c", "echo $LD_LIBRARY_PATH").stdout,
                         os.path.join(PREFIX, "lib/verbatim") + "\n")

    def test_the_systems_library_is_not_taken_for_its_own(self):
        folder = temporary_folder(self)
        for part in ("bin", "lib"):
            os.mkdir(os.path.join(folder, part))
        shutil.copy(os.path.join(PREFIX, "bin/verbatim"), os.path.join(folder, "bin"))
        [system] = re.findall(r"libibverbs.so.1 => (\S+)", run("ldd", shutil.which("ibv_devices")).stdout)
        shutil.copy(system, os.path.join(folder, "lib/libibverbs.so.1"))
        done = self.command("run", "true", at=folder)
        self.assertEqual(done.returncode, 125)
        self.assertIn("lib/verbatim/libibverbs.so.1", done.stderr)

    def test_a_library_of_another_version_is_refused_with_both_versions(self):
        folder = os.path.join(temporary_folder(self), "mixed")
        shutil.copytree(PREFIX, folder)
        library = os.path.join(folder, "lib/verbatim/libibverbs.so.1")
        with open(library, "r+b") as file:
            at = file.read(4096).index(b"Verbatim\0\0\0\0") + 12
            file.seek(at)
            file.write(b"0.0.9\0")
        done = self.command("run", "true", at=folder)
        self.assertEqual(done.returncode, 125)
        self.assertIn(f"is of version 0.0.9, and this command is of version {version()}", done.stderr)
        self.assertEqual(self.command("doctor", at=folder).returncode, 1)

    def example(self, *sources):
        """The example program, compiled together with other sources."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler or not os.path.exists("/usr/include/infiniband/verbs.h"):
            self.skipTest("needs a C compiler and libibverbs-dev")
        program = os.path.join(temporary_folder(self), "loopback")
        source = os.path.join(PREFIX, "share/doc/verbatim/examples/loopback.c")
        subprocess.run([compiler, "-Wall", "-Werror", "-o", program, source, *sources, "-libverbs"], check=True)
        return program

    def test_a_program_with_much_thread_local_storage_runs(self):
        source = os.path.join(temporary_folder(self), "storage.c")
        with open(source, "w", encoding="utf-8") as text:
            text.write("__thread char storage[480 << 10];\n"
                       "__attribute__((constructor)) static void use(void) { storage[1] = 1; }\n")
        done = self.command("run", self.example(source))
        self.assertEqual((done.returncode, done.stdout),
                         (0, "vb0: written by an RDMA adapter made of software\n"), done.stderr)

    def test_the_example_program_compiles_and_runs(self):
        program = self.example()
        done = self.command("run", program)
        self.assertEqual(done.stdout, "vb0: written by an RDMA adapter made of software\n", done.stderr)
        self.assertNotIn("software", run(program).stdout)  # the system's library has no such device


class ManPages(unittest.TestCase):
    def page(self, name):
        section = {"verbatim-environment": 7, "verbatim-files": 5}.get(name, 1)
        path = os.path.join(PREFIX, f"share/man/man{section}/{name}.{section}")
        with open(path, encoding="utf-8") as text:
            return path, text.read().replace("\\-", "-")

    def test_every_option_of_a_command_is_in_its_page_and_no_other(self):
        for command in COMMANDS:
            self.assertEqual(self.described(command), options_of(command), command)

    def described(self, command):
        page = self.page(f"verbatim-{command}")[1]
        return set(re.findall(r"^\.TP\n\.\w+ (?:-\w \", \" )?(--[a-z0-9-]+)", page, re.M))

    def test_every_command_of_a_fabric_and_every_option_of_it_is_in_its_page_and_no_other(self):
        listed = run(os.path.join(PREFIX, "bin/verbatim"), "fabric", "--help").stdout.split("Subcommands:")[1]
        self.assertEqual(set(re.findall(r"^  (\w+)", listed.split("\n\n")[0], re.M)), set(FABRIC_COMMANDS))
        options = set().union(*(options_of("fabric", command) for command in FABRIC_COMMANDS))
        self.assertEqual(self.described("fabric"), options)

    def test_every_command_is_in_the_main_page(self):
        page = self.page("verbatim")[1]
        listed = run(os.path.join(PREFIX, "bin/verbatim"), "--help").stdout.split("Subcommands:")[1]
        for command in re.findall(r"^  (\w+)", listed, re.M):
            self.assertIn(f"verbatim-{command} (1)", page)

    def test_every_variable_that_the_libraries_read_is_described(self):
        read = set()
        for folder, _, files in os.walk(os.path.join(SOURCE, "src")):
            for name in files:
                if name.endswith(".cc") and not name.endswith("_test.cc") and not name.startswith("test_"):
                    with open(os.path.join(folder, name), encoding="utf-8") as text:
                        read |= set(re.findall(r'(?:getenv|environment|environment_variable)\("(\w+)"\)',
                                               text.read()))
        page = self.page("verbatim-environment")[1]
        self.assertGreater(len(read), 8)
        for variable in sorted(read - {"PATH"}):
            self.assertIn(variable, page)

    @unittest.skipUnless(shutil.which("man"), "needs man")
    def test_they_have_no_mistake_in_their_markup(self):
        for name in ("verbatim", *(f"verbatim-{command}" for command in COMMANDS), "verbatim-fabric",
                     "verbatim-environment", "verbatim-files"):
            done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", self.page(name)[0])
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)


@unittest.skipUnless(os.path.exists("/usr/share/bash-completion/bash_completion"), "needs bash-completion")
class Completion(unittest.TestCase):
    def complete(self, *words):
        script = ("source /usr/share/bash-completion/bash_completion; "
                  f"source {PREFIX}/share/bash-completion/completions/verbatim; "
                  'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; '
                  'COMPREPLY=(); compopt() { :; }; _verbatim; printf "%s\\n" "${COMPREPLY[@]}"')
        return set(run("bash", "-c", script, "bash", "verbatim", *words).stdout.split())

    def test_commands_and_their_options(self):
        self.assertEqual(self.complete("d"), {"devices", "doctor", "demo"})
        self.assertEqual(self.complete("doctor", "--p"), {"--program", "--peer", "--port"})
        self.assertEqual(self.complete("run", "--devices", "l"), {"lo"})
        for command in COMMANDS:
            self.assertEqual(self.complete(command, "--"), options_of(command), command)
        self.assertEqual(self.complete("fabric", "d"), {"down"})
        self.assertEqual(self.complete("fabric", "link", ""), {"up", "down", "loss", "faults", "error"})
        for command in FABRIC_COMMANDS:
            options = options_of("fabric", command) | WORDS_OF_FABRIC_COMMANDS.get(command, set())
            self.assertEqual(self.complete("fabric", command, "--"), options, command)

    def test_the_program_and_what_comes_after_it(self):
        self.assertIn("printenv", self.complete("run", "--devices", "lo", "printen"))
        self.assertIn("/etc", {word.rstrip("/") for word in self.complete("run", "ls", "/et")})


def main():
    global BUILD, PREFIX
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    given, rest = options.parse_known_args()
    BUILD = given.build
    folder = tempfile.mkdtemp(prefix="verbatim-prefix-")
    os.chmod(folder, 0o755)
    try:
        PREFIX = os.path.join(folder, "any")
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", PREFIX, "--strip"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
            return 1
        return 0 if unittest.main(argv=sys.argv[:1] + rest, exit=False).result.wasSuccessful() else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
