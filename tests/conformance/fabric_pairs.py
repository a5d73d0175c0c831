# SPDX-License-Identifier: Apache-2.0
"""Pairs of programs on two nodes of a fabric that OpenSM has set up."""
import time
import unittest

import hosts
from fabrics import TREE, Fabric


def subnet(test, installation, topology=TREE, *options, before=lambda made: None):
    """A fabric whose ports OpenSM has made Active."""
    made = Fabric(installation, topology)
    test.addCleanup(made.end) if isinstance(test, unittest.TestCase) else test.addClassCleanup(made.end)
    made.await_up()
    before(made)
    made.opensm = made.start_opensm("h1", "osm.log", *options)
    return made.await_active()


class Pairs:
    """Runs a program on two nodes: the second one is told where the first one listens."""
    next_port = 18600

    def pair(self, made, program, server="h3", client="h0", clients_words=None):
        type(self).next_port += 1
        words = [*program, "-p", str(self.next_port)]
        listening = made.start(server, *words)
        self.assertTrue(listening.await_listening(self.next_port, time.monotonic() + hosts.PATIENCE), listening.output())
        connecting = made.start(client, *(clients_words or words), "127.0.0.1")
        return listening, connecting

    def finish(self, *processes):
        deadline = time.monotonic() + hosts.PATIENCE
        for process in reversed(processes):
            self.assertEqual(process.wait(deadline), 0, process.output())
        return [process.output() for process in processes]

    def passes(self, made, *program, **ends):
        return self.finish(*self.pair(made, program, **ends))
