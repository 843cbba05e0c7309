#!/usr/bin/env python3
"""What a user meets at the command line: errors in one line, exit statuses, reports that a script can read.

    cli_test.py --deadheat bin/deadheat --programs DIR --twins DIR --work DIR [CASE…]

Each test_CASE of the cli_*.py beside it is one ctest test. --programs holds the compiled sources of this folder, --twins those of
tests/programs. Every case runs in an empty directory of its own below --work, where its files stay for a look.
Exit status: 0 all passed, 1 not.
"""
import argparse
import os
import sys
import unittest

import cli_case
import cli_checks  # noqa: F401, the cases
import cli_damage  # noqa: F401
import cli_record  # noqa: F401
import cli_reports  # noqa: F401
import cli_usage  # noqa: F401


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, type=os.path.abspath, help="the deadheat command")
    parser.add_argument("--programs", required=True, type=os.path.abspath, help="compiled sources of this folder")
    parser.add_argument("--twins", required=True, type=os.path.abspath, help="compiled sources of tests/programs")
    parser.add_argument("--work", required=True, type=os.path.abspath, help="folder for what the cases write")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names without test_; none: all")
    parser.parse_args(namespace=cli_case.settings)
    os.environ.pop("DEADHEAT_OPTIONS", None)
    suite, known = unittest.TestSuite(), set()
    for kind in cli_case.Case.__subclasses__():
        for name in unittest.TestLoader().getTestCaseNames(kind):
            known.add(name[len("test_"):])
            if not cli_case.settings.cases or name[len("test_"):] in cli_case.settings.cases:
                suite.addTest(kind(name))
    unknown = set(cli_case.settings.cases) - known
    if unknown:
        parser.error("no such case: " + ", ".join(sorted(unknown)))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
