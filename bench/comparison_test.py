#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import unittest

from comparison import (Absent, Failed, Measurement, Peer, above, at_least, at_most, below, show,
                        take_rounds, verdict)


def numbers(*values):
    """A measurement that gives these, one after the other."""
    left = list(values)
    return lambda: left.pop(0)


def refusal(problem):
    def run():
        raise problem
    return run


def only(measurement, rounds):
    return take_rounds([measurement], rounds)[0].as_json()


class Rounds(unittest.TestCase):
    def test_one_bad_round_changes_neither_median_nor_ratio(self):
        row = only(Measurement("ours", "us", numbers(2, 40, 2),
                               (Peer("theirs", numbers(4, 80, 4)),)), 3)
        self.assertEqual((row["ours"], row["beside"][0]["theirs"], row["beside"][0]["ratio"]),
                         (2, 4, 0.5))

    def test_a_ratio_is_of_one_round(self):
        # The medians are 3 and 3; in two of three rounds ours was three times as much.
        row = only(Measurement("ours", "us", numbers(3, 9, 1), (Peer("theirs", numbers(1, 3, 5)),)), 3)
        self.assertEqual(row["beside"][0]["ratio"], 3)

    def test_a_peer_of_two_measurements_is_asked_once_a_round(self):
        peer = Peer("theirs", numbers(1, 2))
        results = take_rounds([Measurement("a", "us", numbers(1, 1), (peer,)),
                               Measurement("b", "us", numbers(1, 1), (peer,))], 2)
        self.assertEqual([result.theirs["theirs"] for result in results], [[1, 2], [1, 2]])

    def test_what_is_absent_is_no_failure(self):
        row = only(Measurement("ours", "us", numbers(1),
                               (Peer("theirs", refusal(Absent("not installed")), below(1)),)), 1)
        self.assertEqual((row["absences"], row["failures"]), ({"theirs": "not installed"}, {}))
        self.assertEqual(verdict(row["beside"][0]), "below 1x: not measured")

    def test_a_failure_is_told_and_ends_nothing(self):
        report = {"results": [result.as_json() for result in take_rounds(
            [Measurement("first", "us", refusal(Failed("status 1"))),
             Measurement("second", "us", numbers(7))], 1)]}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            show(report)
        self.assertIn("FAILED: first: status 1", printed.getvalue())
        self.assertIn("7.00 us", printed.getvalue())


class Goals(unittest.TestCase):
    def test_bounds_are_inclusive_where_the_words_say_so(self):
        self.assertTrue(at_most(1.15).is_met_by(1.15))
        self.assertTrue(at_least(20).is_met_by(20))
        self.assertFalse(below(1).is_met_by(1))
        self.assertFalse(above(1).is_met_by(1))

    def test_a_row_says_plainly_whether_its_goal_is_met(self):
        row = only(Measurement("ours", "M/s", numbers(19), goal=at_least(20)), 1)
        self.assertEqual(verdict(row), "at least 20: NOT MET")
        row = only(Measurement("ours", "M/s", numbers(21), goal=at_least(20)), 1)
        self.assertEqual(verdict(row), "at least 20: met")


if __name__ == "__main__":
    unittest.main()
