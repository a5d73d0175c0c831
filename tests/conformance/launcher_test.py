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
        self.assertIn("lib/libibverbs.so.1", done.stderr)


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
