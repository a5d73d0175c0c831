#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the packages of `make package` in a clean Debian 12, runs perftest there as an ordinary user, removes them,
and looks at what is left. Then the same with the tarball, as a user without rights.

Usage: packages_test.py --build build/release
Needs root, mmdebstrap and a Debian mirror; exits with 77 when one of them is missing.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PATIENCE = 120
USER = "tester"
ROOT, PACKAGES = "", ""
with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as page:
    README = page.read()


def in_root(*words, user=None, check=True):
    """A command in the clean root, in namespaces of its own: what it leaves running ends with it."""
    as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs",
               "--inh-caps=-all", "--bounding-set=-all", "env", f"HOME=/home/{user}"] if user else []
    script = ('mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && '
              'ip link set lo up && exec chroot "$0" "$@"')
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc",
                           "sh", "-c", script, ROOT, *as_user, *words],
                          capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def files():
    """Every path of the root but what is mounted, with its contents' size."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        here = os.path.relpath(folder, ROOT)
        if here == ".":
            folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "tmp")]
        found |= {os.path.join(here, name) for name in names + folders}
    return found


# A server and a client of perftest on one host. The server needs a moment; the client tries again.
PAIR = """
"$1" run ib_write_bw -n 1000 >/tmp/server 2>&1 &
for i in 1 2 3 4 5 6 7 8 9 10; do
  sleep 0.5
  "$1" run ib_write_bw -n 1000 127.0.0.1 >/tmp/client 2>&1 && break
done
cat /tmp/client
grep -q "^ 65536 " /tmp/client || { cat /tmp/server; exit 1; }
"""


class Packages(unittest.TestCase):
    """The tests run in the order of their names."""

    def type_the_readme(self):
        """The commands of README.md in one shell; what each prints is what the page shows, ... for anything."""
        console = re.search(r"```console\n(.*?)```", README, re.S)[1]
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.M)
        script = "".join(f"echo '@@ {number}'\n{command}\n" for number, (command, _) in enumerate(commands))
        printed = in_root("sh", "-c", script, user=USER).stdout
        shown = re.split(r"^@@ \d+\n", printed, flags=re.M)[1:]
        for (command, expected), output in zip(commands, shown, strict=True):
            pattern = re.escape(expected).replace(r"\.\.\.", r"[\s\S]*")
            self.assertRegex(output, rf"\A{pattern}\Z", command)
        print(f"README.md: {len(commands)} commands print what it shows")

    def install_as_the_readme_says(self, name):
        """Its line names the package of one architecture. perftest is there, because the root has no network."""
        [line] = re.findall(r"^sudo (apt-get install .*)$", README, re.M)
        self.assertEqual(re.findall(r"verbatim_\S+", line), [re.sub(r"_[a-z0-9]+\.deb$", "_amd64.deb", name)])
        words = line.replace(re.findall(r"verbatim_\S+", line)[0], name)
        in_root("sh", "-c", f"cd /tmp && yes | {words}")

    def look_for_symbols(self):
        """The debug symbols of each program are where debuggers look for them, by its build ID."""
        programs = [f"{ROOT}/usr/bin/verbatim", *glob.glob(f"{ROOT}/usr/lib/verbatim/*.so*")]
        self.assertEqual(len(programs), 4)
        for program in programs:
            notes = subprocess.run(["readelf", "-nW", program], capture_output=True, text=True, check=True).stdout
            number = re.search(r"Build ID: (\w+)", notes)[1]
            symbols = f"{ROOT}/usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug"
            sections = subprocess.run(["readelf", "-SW", symbols], capture_output=True, text=True, check=True).stdout
            for section in (".debug_info", ".debug_line", ".symtab"):
                self.assertIn(section, sections, program)

    def type_what_the_readme_shows_besides(self):
        """The commands under "See what happens", but for those that need a second host."""
        commands = re.search(r"## See what happens.*?```sh\n(.*?)```", README, re.S)[1].splitlines()
        self.assertGreater(len(commands), 6)
        for line in commands:
            command = line.partition("#")[0].replace("./server", "true")
            if "--serve" not in command and "--peer" not in command:
                in_root("sh", "-c", f"cd && VERBATIM_DEVICES=lo {command}", user=USER)

    def test_1_installed_they_work_for_an_ordinary_user(self):
        before = files()
        [package], [symbols] = (glob.glob(f"{PACKAGES}/verbatim{part}_*.deb") for part in ("", "-dbgsym"))
        for path in (package, symbols):
            shutil.copy(path, os.path.join(ROOT, "tmp"))
        self.install_as_the_readme_says(os.path.basename(package))
        in_root("dpkg", "-i", f"/tmp/{os.path.basename(symbols)}")
        self.look_for_symbols()

        version = in_root("verbatim", "--version", user=USER).stdout
        self.assertRegex(version, r"^verbatim \d+\.\d+\.\d+\n$")
        self.assertIn("127.0.0.1", in_root("verbatim", "devices", user=USER).stdout)
        self.assertIn("verbatim run ib_write_bw", in_root("man", "verbatim", user=USER).stdout)
        doctor = in_root("verbatim", "doctor", user=USER, check=False).stdout
        self.assertIn("\n0 problems", doctor)
        print(in_root("sh", "-c", PAIR, "sh", "/usr/bin/verbatim", user=USER).stdout)
        self.type_the_readme()
        self.type_what_the_readme_shows_besides()
        # A program that was not started by it gets the system's library.
        self.assertNotIn("/verbatim/", in_root("ldd", "/usr/bin/ib_write_bw").stdout)
        self.assertNotIn("verbatim", in_root("ldconfig", "-p").stdout)

        in_root("dpkg", "--purge", "verbatim-dbgsym", "verbatim")
        left = {path for path in files() - before if not path.startswith(("var/", "home/"))}
        self.assertEqual(left, set())

    def test_2_the_tarball_runs_where_it_was_unpacked(self):
        [archive] = glob.glob(f"{PACKAGES}/verbatim-*-linux-*.tar.gz")
        shutil.copy(archive, os.path.join(ROOT, "tmp/verbatim.tar.gz"))
        home = f"/home/{USER}"
        in_root("tar", "-C", home, "-xzf", "/tmp/verbatim.tar.gz", user=USER)
        [folder] = glob.glob(f"{ROOT}{home}/verbatim-*")
        command = os.path.join(home, os.path.basename(folder), "bin/verbatim")
        print(in_root("sh", "-c", PAIR, "sh", command, user=USER).stdout)


def main():
    global ROOT, PACKAGES
    options = argparse.ArgumentParser()
    options.add_argument("--build", required=True)
    options.add_argument("--root", help="keep the clean Debian here, and use it again")
    given, rest = options.parse_known_args()
    PACKAGES = os.path.join(given.build, "packages")
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        print("SKIPPED: needs root and mmdebstrap")
        return SKIPPED
    if not glob.glob(f"{PACKAGES}/verbatim_*.deb"):
        print(f"there are no packages in {PACKAGES}; `make package` makes them")
        return 1
    ROOT = given.root or os.path.join(tempfile.mkdtemp(prefix="verbatim-clean-"), "root")
    try:
        if not os.path.exists(f"{ROOT}/etc/debian_version"):
            started = time.monotonic()
            sources = glob.glob("/etc/apt/sources.list.d/*.sources") or ["bookworm"]
            done = subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=apt", "--include=perftest,opensm,infiniband-diags,man-db,libstdc++6",
                 '--aptopt=Acquire::Retries "3"', '--aptopt=Acquire::http::Timeout "30"',
                 f"--customize-hook=chroot \"$1\" useradd --create-home {USER}", "bookworm", ROOT, *sources],
                capture_output=True, text=True, timeout=1200)
            if done.returncode != 0:
                print(f"SKIPPED: no clean Debian could be made\n{done.stderr[-2000:]}")
                return SKIPPED
            print(f"a clean Debian 12 in {time.monotonic() - started:.0f} s")
        result = unittest.main(argv=sys.argv[:1] + rest, exit=False).result
        return 0 if result.wasSuccessful() else 1
    finally:
        if not given.root:
            shutil.rmtree(os.path.dirname(ROOT), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
