#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `verbatim run` and `verbatim devices` promise on their command line. Needs no root.

Usage: launcher_test.py --build build/release
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = ""


def verbatim(*words, **environment):
    return subprocess.run([os.path.join(BUILD, "bin/verbatim"), *words], capture_output=True,
                          text=True, env={**os.environ, **environment}, timeout=60)


class Run(unittest.TestCase):
    def test_the_exit_status_is_the_programs_own(self):
        self.assertEqual(verbatim("run", "sh", "-c", "exit 42").returncode, 42)

    def test_options_of_the_program_are_left_alone(self):
        self.assertEqual(verbatim("run", "echo", "--help", "-e").stdout, "--help -e\n")

    def test_two_dashes_may_stand_before_the_program(self):
        for options in ((), ("--devices", "lo=vb9"), ("--devices=lo=vb9",)):
            done = verbatim("run", *options, "--", "echo", "-n", "--", "--help")
            self.assertEqual((done.returncode, done.stdout), (0, "-- --help"), done.stderr)
        self.assertEqual(verbatim("run", "echo", "--", "x").stdout, "-- x\n")

    def test_a_program_that_is_not_there_is_127(self):
        done = verbatim("run", "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-program", done.stderr)

    def test_a_program_that_cannot_be_started_is_126(self):
        self.assertEqual(verbatim("run", "/").returncode, 126)

    def test_without_a_program_it_says_so(self):
        done = verbatim("run")
        self.assertEqual(done.returncode, 125)
        self.assertIn("--help", done.stderr)

    def test_an_interface_that_is_not_there_is_refused_by_name(self):
        done = verbatim("run", "--devices", "nosuch0", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("'nosuch0'", done.stderr)

    def test_the_library_comes_first_and_the_rest_stays(self):
        done = verbatim("run", "sh", "-c", "echo $LD_LIBRARY_PATH; echo $LD_PRELOAD",
                        LD_LIBRARY_PATH="/there/before", LD_PRELOAD="libm.so.6")
        path, preload = done.stdout.splitlines()
        folder = os.path.realpath(os.path.join(BUILD, "lib"))
        self.assertEqual(path, f"{folder}:/there/before")
        self.assertEqual(preload, f"{folder}/libibverbs.so.1:{folder}/libverbatim-preload.so:libm.so.6")

    def test_the_program_is_told_of_the_devices(self):
        done = verbatim("run", "--devices", "lo=vb9", "sh", "-c", "echo $VERBATIM_DEVICES")
        self.assertEqual(done.stdout, "lo=vb9\n")

    def test_a_choice_for_open_mpi_is_not_overruled(self):
        done = verbatim("run", "sh", "-c", "echo $OMPI_MCA_pml_ucx_tls $OMPI_MCA_pml_ucx_devices",
                        OMPI_MCA_pml_ucx_tls="rc")
        self.assertEqual(done.stdout, "rc any\n")

    def test_options_of_the_address_sanitizer_are_kept(self):
        show = ("run", "sh", "-c", "echo $ASAN_OPTIONS")
        self.assertEqual(verbatim(*show, ASAN_OPTIONS="detect_leaks=0").stdout,
                         "verify_asan_link_order=0:detect_leaks=0\n")
        self.assertEqual(verbatim(*show, ASAN_OPTIONS="").stdout, "verify_asan_link_order=0\n")

    def test_without_descriptors_a_device_is_refused_with_a_message_that_names_the_limit(self):
        opened = 0
        for limit in range(4, 44):
            done = verbatim("run", "prlimit", f"--nofile={limit}:{limit}", "ibv_devinfo", VERBATIM_DEVICES="lo")
            if done.returncode == 0:
                opened += 1
                continue
            refusals = [line for line in done.stderr.splitlines() if line.startswith("verbatim: ")]
            # With fewest, the program itself does not start, or the list of devices cannot be read.
            if limit > 6:
                self.assertTrue(refusals, f"{limit}: {done.stdout}{done.stderr}")
            for refusal in refusals:
                self.assertIn("ulimit -n", refusal, limit)
        self.assertGreater(opened, 0)

    def test_nccl_is_kept_from_the_transport_that_only_mellanox_adapters_have(self):
        show = ("run", "sh", "-c", "echo $NCCL_GIN_TYPE")
        unset = {name: value for name, value in os.environ.items() if name != "NCCL_GIN_TYPE"}
        done = subprocess.run([os.path.join(BUILD, "bin/verbatim"), *show], capture_output=True,
                              text=True, env=unset, timeout=60)
        self.assertEqual(done.stdout, "2\n")
        self.assertEqual(verbatim(*show, NCCL_GIN_TYPE="3").stdout, "3\n")

    def test_without_its_library_it_starts_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "bin"))
            alone = shutil.copy(os.path.join(BUILD, "bin/verbatim"), os.path.join(folder, "bin"))
            done = subprocess.run([alone, "run", "true"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 125)
        self.assertIn("lib/verbatim/libibverbs.so.1", done.stderr)


class OtherPrograms(unittest.TestCase):
    """Programs that would not load the library are refused, by name and with the reason."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def expect_refusal(self, program, reason):
        done = verbatim("run", program)
        self.assertEqual((done.returncode, done.stdout), (126, ""), done.stderr)
        self.assertIn(program, done.stderr)
        self.assertIn(reason, done.stderr)

    def changed_echo(self, change):
        path = os.path.join(self.folder, "changed")
        with open(shutil.which("echo"), "rb") as file:
            octets = file.read()
        with open(path, "wb") as file:
            file.write(change(octets))
        os.chmod(path, 0o755)
        return path

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_one_that_is_linked_statically(self):
        source = os.path.join(self.folder, "a.c")
        with open(source, "w") as text:
            text.write("int main(void) { return 0; }\n")
        for option in ("-static", "-static-pie"):
            program = os.path.join(self.folder, "a" + option)
            subprocess.run(["gcc", option, "-o", program, source], check=True)
            self.expect_refusal(program, "it is linked statically")
            # One that starts others has a way: only its children are on the adapter.
            self.assertEqual(verbatim("run", "env", program).returncode, 0)

    @unittest.skipUnless(shutil.which("gcc"), "needs gcc")
    def test_one_with_the_address_sanitizer_starts(self):
        source = os.path.join(self.folder, "a.c")
        with open(source, "w") as text:
            text.write('#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n')
        program = os.path.join(self.folder, "sanitized")
        if subprocess.run(["gcc", "-fsanitize=address", "-o", program, source], capture_output=True).returncode != 0:
            self.skipTest("gcc has no address sanitizer here")
        done = verbatim("run", program, ASAN_OPTIONS="detect_leaks=0")
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)

    def test_one_whose_c_library_is_musl(self):
        def change(octets):
            name = next(name for name in (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1")
                        if name in octets)
            musl = b"/lib/ld-musl-" + os.uname().machine.encode() + b".so.1"
            return octets.replace(name, musl.ljust(len(name), b"\0"), 1)

        self.expect_refusal(self.changed_echo(change), "its C library is musl")

    @unittest.skipUnless(shutil.which("musl-gcc"), "needs musl-tools")
    def test_one_that_musl_gcc_has_made(self):
        source = os.path.join(self.folder, "a.c")
        with open(source, "w") as text:
            text.write("int main(void) { return 0; }\n")
        for options, reason in (((), "its C library is musl"), (("-static",), "it is linked statically")):
            program = os.path.join(self.folder, "musl" + "".join(options))
            subprocess.run(["musl-gcc", *options, "-o", program, source], check=True)
            self.expect_refusal(program, reason)

    def test_one_for_another_processor(self):
        # e_machine, octets 18 and 19: RISC-V.
        self.expect_refusal(self.changed_echo(lambda octets: octets[:18] + b"\xf3\0" + octets[20:]),
                            "for another kind of processor")

    def test_a_damaged_one_is_left_to_the_kernel(self):
        done = verbatim("run", self.changed_echo(lambda octets: octets[:40]))
        self.assertNotIn("verbatim run:", done.stderr)

    def test_the_dynamic_linker_itself_may_start_a_program(self):
        linker = next((path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
                       if os.path.exists(path)), None)
        if linker is None:
            self.skipTest("no dynamic linker with a known name")
        self.assertEqual(verbatim("run", linker, shutil.which("echo"), "x").stdout, "x\n")


class Nonsense(unittest.TestCase):
    def expect_refusal(self, words, name, **environment):
        done = verbatim(*words, **environment)
        self.assertNotEqual(done.returncode, 0, words)
        self.assertIn(name, done.stderr, words)
        self.assertEqual(done.stdout, "", words)

    def test_commands_and_options_that_do_not_exist_are_named(self):
        self.expect_refusal([], "a command is missing")
        self.expect_refusal(["frob"], "frob")
        self.expect_refusal(["--frob"], "--frob")
        self.expect_refusal(["run", "--frob", "true"], "'--frob'")
        self.expect_refusal(["run", "-x", "true"], "'-x'")
        self.expect_refusal(["run", "--"], "a program is missing")
        for command in ("devices", "demo", "sim", "doctor", "stat"):
            self.expect_refusal([command, "--frob"], "--frob")
            self.expect_refusal([command, "frob"], "frob")

    def test_a_mistake_in_the_command_line_is_2_and_of_run_125(self):
        for words in ((), ("frob",), ("sim", "--frob"), ("fabric",), ("stat", "--interval", "0")):
            self.assertEqual(verbatim(*words).returncode, 2, words)
        self.assertEqual(verbatim("run", "--frob", "true").returncode, 125)
        self.assertEqual(verbatim("run", "--help").returncode, 0)

    def test_values_that_make_no_sense_are_named_with_their_option(self):
        huge = "99999999999999999999"
        for command, option, values in (("demo", "--seed", ("x", "-1", "1.5", "", huge)),
                                        ("demo", "--loss", ("x", "-1", "61", "", huge)),
                                        ("sim", "--seed", ("x", "-1", "1e3", "", huge)),
                                        ("sim", "--histories", ("x", "-5", "0", "", huge)),
                                        ("doctor", "--port", ("x", "-1", "0", "65536", "")),
                                        ("stat", "--interval", ("x", "-1", "0", "3601", "0.5", "")),
                                        ("doctor", "--peer", ("",)),
                                        ("doctor", "--program", ("",)),
                                        ("run", "--faults", ("",)),
                                        ("run", "--capture", ("",))):
            for value in values:
                self.expect_refusal([command, option, value], option)
            self.expect_refusal([command, option], option)
        for value in ("", ",", "lo,lo", "lo=", "lo=-x", "nosuch0", "lo=vb9=vb8", "lo,,lo"):
            self.expect_refusal(["run", "--devices", value, "true"], "DEVICES" if value else "--devices")

    def test_the_environment_is_refused_by_name(self):
        for value in (",", "lo,lo", "lo=", "lo=a/b", "lo=" + "x" * 64, "nosuch0", " ", "lo;", "LO"):
            self.expect_refusal(["devices"], "VERBATIM_DEVICES", VERBATIM_DEVICES=value)
            self.expect_refusal(["devices", "--json"], "VERBATIM_DEVICES", VERBATIM_DEVICES=value)


class Faults(unittest.TestCase):
    def test_the_program_is_told_of_the_rules(self):
        done = verbatim("run", "--faults", "out drop 1%", "sh", "-c", "echo $VERBATIM_FAULTS")
        self.assertEqual(done.stdout, "out drop 1%\n")

    def test_a_mistake_is_refused_with_its_place_before_the_program_starts(self):
        done = verbatim("run", "--faults", "seed=1; out drip 1%", "echo", "started")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("--faults, column 13: 'drip'", done.stderr)
        self.assertIn("drop, duplicate, reorder, corrupt or delay", done.stderr)

    def test_so_is_one_in_the_environment(self):
        done = verbatim("run", "echo", "started", VERBATIM_FAULTS="out drop 1")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("VERBATIM_FAULTS, column 10", done.stderr)


class Capture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_program_is_told_of_the_file_wherever_it_goes(self):
        done = subprocess.run(
            [os.path.realpath(os.path.join(BUILD, "bin/verbatim")), "run", "--capture", "a.pcapng",
             "sh", "-c", "cd /; echo $VERBATIM_CAPTURE"],
            capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.stdout, os.path.join(self.folder, "a.pcapng") + "\n", done.stderr)

    def test_what_an_earlier_run_wrote_is_gone(self):
        path = os.path.join(self.folder, "a.pcapng")
        with open(path, "w") as old:
            old.write("old")
        self.assertEqual(verbatim("run", "--capture", path, "true").returncode, 0)
        self.assertEqual(os.path.getsize(path), 0)

    def test_a_path_that_cannot_be_is_refused_by_name_before_the_program_starts(self):
        for path in (os.path.join(self.folder, "none/a.pcapng"), self.folder):
            done = verbatim("run", "--capture", path, "echo", "started")
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertIn(path, done.stderr)


class Devices(unittest.TestCase):
    def test_lists_gids_by_index_for_machines(self):
        done = verbatim("devices", "--json", VERBATIM_DEVICES="lo=vb9")
        device = json.loads(done.stdout)[0]
        self.assertEqual((device["name"], device["interface"]), ("vb9", "lo"))
        self.assertEqual([gid["index"] for gid in device["gids"]],
                         list(range(len(device["gids"]))))
        self.assertIn("127.0.0.1", [gid["address"] for gid in device["gids"]])

    def test_says_of_a_gid_that_is_no_address_that_it_has_no_packets_and_which_one_has(self):
        [device] = json.loads(verbatim("devices", "--json", VERBATIM_DEVICES="lo").stdout)
        packets = {gid["address"]: gid["packets"] for gid in device["gids"]}
        self.assertIs(packets["127.0.0.1"], True)
        self.assertIs(device["gids"][0]["packets"], False)  # lo has no link-local address
        lines = verbatim("devices", VERBATIM_DEVICES="lo").stdout.splitlines()
        [first] = [line for line in lines if line.startswith("  GID 0 ")]
        usable = next(gid["index"] for gid in device["gids"] if gid["packets"])
        self.assertIn("no packets: lo does not have this address", first)
        self.assertIn(f"use GID index {usable}", first)
        [other] = [line for line in lines if "127.0.0.1" in line]
        self.assertNotIn("packets", other)

    def test_says_which_path_peers_of_this_host_take_and_why(self):
        for environment, path, cause, sentence in (
                ({}, "auto", "default", "direct where both ends allow it"),
                ({"VERBATIM_PATH": "packet"}, "packet", "VERBATIM_PATH", "VERBATIM_PATH=packet"),
                ({"VERBATIM_PATH": "direct"}, "direct", "VERBATIM_PATH", "or not at all"),
                ({"VERBATIM_FAULTS": "out drop 1%"}, "packet", "VERBATIM_FAULTS", "FAULTS is set"),
                ({"VERBATIM_CAPTURE": "/tmp/x"}, "packet", "VERBATIM_CAPTURE", "CAPTURE is set")):
            environment = {"VERBATIM_DEVICES": "lo", "VERBATIM_PATH": "", **environment}
            [device] = json.loads(verbatim("devices", "--json", **environment).stdout)
            self.assertEqual((device["path"], device["path_cause"]), (path, cause))
            last = verbatim("devices", **environment).stdout.splitlines()[-1]
            self.assertTrue(last.startswith("Between processes of this host: "), last)
            self.assertIn(sentence, last)

    def test_refuses_a_path_that_is_none_as_programs_would(self):
        done = verbatim("devices", VERBATIM_DEVICES="lo", VERBATIM_PATH="fast")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("VERBATIM_PATH: 'fast'", done.stderr)

    def test_has_no_colour_in_a_pipe(self):
        done = verbatim("devices", VERBATIM_DEVICES="lo")
        self.assertIn("127.0.0.1", done.stdout)
        self.assertNotIn("\033", done.stdout)

    def test_an_interface_that_is_not_there_is_refused_by_name(self):
        done = verbatim("devices", VERBATIM_DEVICES="nosuch0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'nosuch0'", done.stderr)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    BUILD = options.parse_args().build
    unittest.main(argv=sys.argv[:1])
