#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents name is there: commands and their options, targets of make, presets, files, links. The README is
one page, and the index of docs/ lists every page.

Usage: documents_test.py --build build/release
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import unittest

SOURCE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
COMMAND = ""
README_LINES_MAX = 130
# Names that are made by a build, or are examples.
MADE = ("build/", "src/x", "tests/x")


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as text:
        return text.read()


def documents():
    """Every page that a user or a contributor reads, by its path. CHANGELOG.md tells what was."""
    found = [*glob.glob("*.md", root_dir=SOURCE), *glob.glob("docs/**/*.md", root_dir=SOURCE, recursive=True),
             *glob.glob(".github/**/*.md", root_dir=SOURCE, recursive=True)]
    return {path: read(path) for path in found if path != "CHANGELOG.md"}


def help_of(*words):
    return subprocess.run([COMMAND, *words, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def options_in(help_text):
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", help_text, re.M))


def anchors_of(path):
    """Of each heading, as hosts of repositories make them."""
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", read(path), re.M)}


class Documents(unittest.TestCase):
    def test_every_command_and_option_that_they_name_exists(self):
        commands = set(re.findall(r"^  (\w+)", help_of().split("Subcommands:")[1], re.M))
        options = {command: options_in(help_of(command)) for command in commands}
        uses = 0
        for path, text in documents().items():
            if path == "docs/ARCHITECTURE.md":
                continue  # the design, of what is not there yet as well
            # From `verbatim` to the end of the line, of the quotation, or to the next command.
            for command, words in re.findall(r"(?:^\$? *|`|[;&|] *)verbatim (\w+)([^`\n;|&#]*)", text, re.M):
                self.assertIn(command, commands, f"{path}: verbatim {command}{words}")
                # What follows a program is the program's.
                own = re.match(r"(?: +(?:--[a-z-]+(?:[= ](?:'[^']*'|[^\s-]\S*))?))*", words)[0]
                used = set(re.findall(r"(?<![\w'-])--[a-z-]+", own))
                self.assertLessEqual(used, options[command], f"{path}: verbatim {command}{words}")
                uses += 1
        self.assertGreater(uses, 40)

    def test_every_target_of_make_exists(self):
        targets = set(re.findall(r"^([a-z][a-z0-9-]*):", read("Makefile"), re.M))
        for path, text in documents().items():
            for target in re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", text, re.M):
                self.assertIn(target, targets, path)

    def test_every_target_of_make_that_has_a_recipe_is_in_its_list(self):
        makefile = read("Makefile")
        targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.M)) - {"configure"}
        self.assertEqual(set(re.findall(r"^([a-z][a-z0-9-]*):.*## ", makefile, re.M)), targets)
        phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
        self.assertEqual(phony - {"configure"}, targets)

    def test_every_preset_exists(self):
        presets = {one["name"] for one in json.loads(read("CMakePresets.json"))["buildPresets"]}
        for path, text in documents().items():
            for preset in re.findall(r"--preset ([a-z0-9-]+)", text):
                self.assertIn(preset, presets, path)

    def test_every_link_leads_somewhere(self):
        for path, text in documents().items():
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"\w+:", target):
                    continue
                file, _, anchor = target.partition("#")
                found = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                self.assertTrue(os.path.exists(os.path.join(SOURCE, found)), f"{path}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors_of(found), f"{path}: {target}")

    def test_every_file_of_the_repository_that_they_name_exists(self):
        folders = "bench|cmake|docs|examples|packaging|scripts|src|tests"
        uses = 0
        for path, text in documents().items():
            if path.startswith("docs/decisions/"):
                continue  # they tell what was decided at their time
            for name in re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w\.(?:h|cc|c|py|sh|md|cmake|txt|map))\b", text):
                if name.startswith(MADE):
                    continue
                self.assertTrue(os.path.exists(os.path.join(SOURCE, name)), f"{path}: {name}")
                uses += 1
        self.assertGreater(uses, 20)

    def test_the_index_lists_every_page(self):
        for index, pattern in (("docs/README.md", "docs/*.md"), ("docs/decisions/README.md", "docs/decisions/*.md")):
            text = read(index)
            for page in glob.glob(pattern, root_dir=SOURCE):
                name = os.path.basename(page)
                if name != "README.md":
                    self.assertIn(f"({name})", text, index)

    def test_the_readme_is_one_page(self):
        self.assertLessEqual(read("README.md").count("\n"), README_LINES_MAX)

    def test_what_make_check_does_is_what_contributors_are_told(self):
        steps = re.search(r"^check:.*\n\t@scripts/test\.sh (.*)$", read("Makefile"), re.M)[1].split()
        [told] = re.findall(r"^make check +# before you push: (.*)$", read("CONTRIBUTING.md"), re.M)
        self.assertEqual((steps, told), (["format", "layers", "release-all", "dev", "clang"],
                                         "format, layers, both compilers, all tests"))

    def test_reports_are_asked_for_the_doctor_and_a_capture(self):
        defect = read(".github/ISSUE_TEMPLATE/defect.md")
        for words in ("verbatim doctor", "verbatim --version", "--capture", "SECURITY.md"):
            self.assertIn(words, defect)
        for template in glob.glob(".github/ISSUE_TEMPLATE/*.md", root_dir=SOURCE):
            head = re.match(r"---\n(.*?)\n---\n", read(template), re.S)
            self.assertTrue(head and re.search(r"^name: \S", head[1], re.M) and re.search(r"^about: \S", head[1], re.M),
                            template)


def main():
    global COMMAND
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    given, rest = options.parse_known_args()
    COMMAND = os.path.join(os.path.realpath(given.build), "bin/verbatim")
    return 0 if unittest.main(argv=sys.argv[:1] + rest, exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
