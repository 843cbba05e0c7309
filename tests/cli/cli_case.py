"""What the command line tests share: a case runs deadheat in an empty directory of its own."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

TIME_LIMIT = 120  # seconds, for one run of deadheat
HERE = os.path.dirname(os.path.abspath(__file__))
SUBCOMMANDS = ["record", "analyze", "replay", "check", "info"]
settings = argparse.Namespace()


def said(err):
    """The lines of deadheat in `err`, without their prefix."""
    return [line[len("deadheat: "):] for line in err.splitlines() if line.startswith("deadheat: ")]


def complaints(err):
    """said() less what every recording and report ends with."""
    return [line for line in said(err)
            if not line.startswith("recorded ") and not re.match(r"(no|\d+) races?\b", line)]


def marker_line(source, marker):
    with open(os.path.join(HERE, source)) as text:
        return next(number for number, line in enumerate(text, 1) if line.rstrip().endswith("// @" + marker))


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = os.path.join(settings.work, self._testMethodName[len("test_"):])
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text, mode=0o644):
        data = text if isinstance(text, bytes) else text.encode()
        with open(self.path(name), "wb") as file:
            file.write(data)
        os.chmod(self.path(name), mode)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def json(self, name):
        return json.loads(self.read(name))

    def run_words(self, words, limit=TIME_LIMIT):
        """(status, standard output, standard error), the former as bytes."""
        process = subprocess.Popen(words, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.fail("no end within %d s: %s" % (limit, " ".join(words)))
        return process.returncode, out, err.decode(errors="replace")

    def deadheat(self, *words):
        return self.run_words([settings.deadheat, *words])

    def refused(self, *words, says, status=2):
        """The command does not do it: the status, nothing on standard output, one line that holds every text."""
        result, out, err = self.deadheat(*words)
        self.assertEqual((result, out), (status, b""), err)
        lines = err.splitlines()
        self.assertEqual(len(lines), 1, err)
        self.assertTrue(err.startswith("deadheat: "), err)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, lines[0])
        return lines[0]

    def record(self, *command, trace="trace", options=(), status=0):
        """Records; standard error without deadheat's closing line."""
        result, out, err = self.deadheat("record", "-o", trace, *options, "--", *command)
        if status is not None:
            self.assertEqual(result, status, err)
        return out, err

    def analyze(self, trace="trace", status=0, options=()):
        """(report, standard error) of `analyze --json -`."""
        result, out, err = self.deadheat("analyze", "--json", "-", *options, trace)
        self.assertEqual(result, status, err)
        return json.loads(out), err

    def log(self, trace="trace"):
        logs = [name for name in os.listdir(self.path(trace)) if ".log" in name]
        self.assertEqual(len(logs), 1, logs)
        return os.path.join(trace, logs[0])

    def witness(self):
        """A witness of shared_reduce.racy, relative to the directory of the case."""
        self.record(twin("shared_reduce.racy"))
        status, _, err = self.deadheat("replay", "trace", "-o", "witnesses")
        self.assertEqual(status, 1, err)
        return os.path.join("witnesses", os.listdir(self.path("witnesses"))[0])


def program(name):
    return os.path.join(settings.programs, name)


def twin(name):
    return os.path.join(settings.twins, name)
