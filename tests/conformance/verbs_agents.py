# SPDX-License-Identifier: Apache-2.0
"""Programs on the nodes of a fabric that make the calls of verbs that a test tells them (verbs_agent.c)."""
import os
import re
import select
import shutil
import subprocess
import time

import hosts


class Agent:
    """The program on one node, until end(). A test calls it like a function: agent("gid", 0)."""

    def __init__(self, made, node, program):
        copied = os.path.join(made.folder, "verbs_agent")
        if not os.path.exists(copied):
            shutil.copy(program, copied)
        self.node = node
        self.child = subprocess.Popen(hosts.NOBODY + made.words(node, [copied]), cwd=made.folder, text=True, bufsize=1,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        made.programs.append(self)
        self._expect("ready")

    def _expect(self, wanted):
        got = self._line()
        if got != wanted:
            raise RuntimeError(f"the program on {self.node} says: {got}")

    def _line(self):
        if not select.select([self.child.stdout], [], [], hosts.PATIENCE)[0]:
            raise RuntimeError(f"the program on {self.node} does not answer")
        return self.child.stdout.readline().strip()

    def tell(self, *words):
        """Without waiting for the answer, which listen() returns."""
        self.child.stdin.write(" ".join(map(str, words)) + "\n")

    def listen(self):
        return self._line()

    def __call__(self, *words):
        self.tell(*words)
        return self.listen()

    def fields(self, *words):
        """An answer of name=value pairs."""
        return {name: int(value) if value.isdigit() else value
                for name, value in re.findall(r"(\S+?)=(\S*)", self(*words))}

    def make_qp(self, service="ud", pkey_index=0, qkey=0x1234):
        number = self("qp", service, pkey_index, qkey)
        if not number.isdigit():
            raise RuntimeError(f"no queue pair on {self.node}: {number}")
        return int(number)

    def output(self):
        return f"the program on {self.node} has ended with {self.child.poll()}\n"

    def end(self):
        if self.child.poll() is None:
            self.child.stdin.close()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.child.stdout.close()


def connect(one, other, service="rc", lids=(0, 0), path=0, pkey_indices=(0, 0), gids=("-", "-")):
    """Connects a queue pair of each agent with the other one, over the LIDs of this path."""
    agents = (one, other)
    numbers = [agent.make_qp(service, index) for agent, index in zip(agents, pkey_indices)]
    for here, there in ((0, 1), (1, 0)):
        said = agents[here]("connect", lids[there] + path, path, 0, numbers[there], gids[there])
        if said != "connected":
            raise RuntimeError(said)
    return numbers


def await_that(holds, seconds=None):
    """Whether it becomes true in time."""
    deadline = time.monotonic() + (seconds or hosts.PATIENCE)
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
