#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_layers.py must refuse what it is there to refuse. Usage: layers_test.py path/to/check_layers.py"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(sys.argv.pop(1)).resolve()

LAYERS = """# layer : uses : kind
base :      : pure
wire : base : pure
tools : base wire :
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.src = pathlib.Path(folder.name)
        self.write('LAYERS', LAYERS)
        self.write('base/time.h', '#include <cstdint>\n')
        self.write('wire/headers/bth.h', '#include "base/time.h"\n#include "wire/headers/psn.h"\n')
        self.write('tools/main.cc', '#include <unistd.h>\n#include "wire/headers/bth.h"\n')

    def write(self, path, text):
        file = self.src / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self):
        return subprocess.run([sys.executable, CHECKER, self.src], capture_output=True, text=True)

    def assert_accepted(self):
        result = self.check()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, '', ''))

    def assert_refused(self, *words):
        result = self.check()
        self.assertEqual(result.returncode, 1, result)
        for word in words:
            self.assertIn(word, result.stdout + result.stderr)

    def test_a_tree_that_points_down_is_accepted(self):
        self.assert_accepted()

    def test_an_include_that_points_up_is_refused_with_its_place(self):
        self.write('base/prng.h', '#pragma once\n#include "wire/headers/bth.h"\n')
        self.assert_refused('base/prng.h:2', 'base may not include wire/')

    def test_spaces_do_not_hide_an_include(self):
        self.write('base/prng.cc', '  #  include "tools/main.h"\n')
        self.assert_refused('base/prng.cc:1')

    def test_the_tests_of_a_layer_point_down_too(self):
        self.write('base/time_test.cc', '#include "wire/headers/bth.h"\n')
        self.assert_refused('base/time_test.cc:1')

    def test_a_pure_layer_includes_no_operating_system(self):
        for header in ('sys/socket.h', 'netinet/in.h', 'linux/if.h', 'unistd.h', 'thread', 'ctime'):
            with self.subTest(header=header):
                self.write('wire/bth.cc', f'#include <{header}>\n')
                self.assert_refused('wire/bth.cc:1', 'wire is pure')

    def test_a_pure_layer_reads_no_clock_and_seeds_nothing(self):
        for line in ('auto t = std::chrono::steady_clock::now();', 'std::random_device seed;'):
            with self.subTest(line=line):
                self.write('wire/bth.cc', line + '\n')
                self.assert_refused('wire/bth.cc:1', 'reads no clock')

    def test_the_tests_of_a_pure_layer_may_use_the_system(self):
        self.write('wire/headers/bth_test.cc', '#include <unistd.h>\n#include <thread>\n')
        self.assert_accepted()

    def test_asking_what_the_cpu_can_do_is_allowed_in_one_file_only(self):
        self.write('wire/crc/crc32_arm.cc', '#include <sys/auxv.h>\n')
        self.assert_accepted()
        self.write('wire/bth.cc', '#include <sys/auxv.h>\n')
        self.assert_refused('wire/bth.cc:1', 'wire is pure')

    def test_a_library_does_not_obey_the_environment_of_a_stranger(self):
        self.write('wire/bth.cc', 'const char* value = secure_getenv("X");\n')
        self.write('wire/headers/bth_test.cc', 'const char* value = getenv("X");\n')
        self.write('tools/main.cc', 'const char* value = std::getenv("X");\n')
        self.assert_accepted()
        self.write('wire/bth.cc', 'const char* value = std::getenv("X");\n')
        self.assert_refused('wire/bth.cc:1', 'environment_variable()')

    def test_a_folder_that_is_not_listed_is_refused(self):
        self.write('util/string.h', '')
        self.assert_refused('util', 'not in')

    def test_a_list_that_points_up_is_refused(self):
        self.write('LAYERS', 'base : wire : pure\nwire : base : pure\ntools : base wire :\n')
        self.assert_refused('base uses wire')


if __name__ == '__main__':
    unittest.main()
