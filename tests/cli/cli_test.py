#!/usr/bin/env python3
"""What a user meets at the command line: errors in one line, exit statuses, reports that a script can read.

    cli_test.py --deadheat bin/deadheat --programs DIR --twins DIR --work DIR [CASE…]

Each test_CASE below is one ctest test. --programs holds the compiled sources of this folder, --twins those of
tests/programs. Every case runs in an empty directory of its own below --work, where its files stay for a look.
Exit status: 0 all passed, 1 not.
"""
import argparse
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
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


class Usage(Case):
    def test_unknown_subcommand(self):
        self.refused("guess", says=["unknown subcommand 'guess'", *SUBCOMMANDS])

    def test_no_subcommand(self):
        self.refused(says=["no subcommand", *SUBCOMMANDS, "--help"])

    def test_help(self):
        for words in [["--help"], ["-h"], ["help"]]:
            status, out, err = self.deadheat(*words)
            self.assertEqual((status, err), (0, ""))
            for name in SUBCOMMANDS:
                self.assertIn(name, out.decode())

    def test_help_of_subcommands(self):
        options = {"record": ["--output", "--device", "--kernel", "--launch-skip", "--launch-count", "--seed"],
                   "analyze": ["--json", "--suppress", "--log-file", "--strict"],
                   "replay": ["--race", "--schedules", "--seed", "--device", "--json", "--output", "--witness"],
                   "check": ["--output", "--device", "--kernel", "--seed", "--schedules", "--json", "--suppress"],
                   "info": ["--records"]}
        for name in SUBCOMMANDS:
            for flag in ["--help", "-h"]:
                status, out, err = self.deadheat(name, flag)
                self.assertEqual((status, err), (0, ""))
                self.assertTrue(out.decode().startswith("usage: deadheat " + name), out)
                for option in options[name]:
                    self.assertIn(option, out.decode())

    def test_version(self):
        status, out, err = self.deadheat("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out.decode(), r"\Adeadheat \d+\.\d+\.\d+\n\Z")

    def test_unknown_option(self):
        for name in SUBCOMMANDS:
            self.refused(name, "--nonsense", says=["--nonsense", "--help"])

    def test_option_without_value(self):
        for name, option in [("record", "--seed"), ("analyze", "--json"), ("replay", "--witness"),
                             ("check", "--suppress"), ("record", "-o")]:
            self.refused(name, option, says=["output" if option == "-o" else option, "missing"])

    def test_option_of_wrong_type(self):
        self.refused("record", "--seed", "many", "--", program("ends"), says=["many", "seed"])
        self.refused("replay", "--race", "first", "trace", says=["first", "race"])

    def test_second_trace(self):
        self.refused("analyze", "one", "two", says="one trace")

    def test_no_command(self):
        self.refused("record", says="no command")
        self.refused("record", "--", says="no command")
        self.refused("check", "--", says="no command")

    def test_command_without_dashes(self):
        self.refused("record", program("ends"), says="--")
        self.refused("check", program("ends"), says="--")
        self.assertEqual(os.listdir(self.directory), [])

    def test_unknown_device(self):
        self.refused("record", "--device", "abacus", "--", program("ends"), says=["abacus", "embedded"])
        self.refused("replay", "--device", "abacus", "trace", says="embedded")

    def test_bad_kernel_pattern(self):
        self.refused("record", "--kernel", "(", "--", program("ends"), says=["'('", "regular expression"])
        self.refused("check", "--kernel", "[", "--", program("ends"), says=["'['", "regular expression"])


class NoTrace(Case):
    def refused_by_all(self, path, says):
        for name in ["analyze", "replay", "info"]:
            self.refused(name, path, says=[path, says])

    def test_missing_trace(self):
        self.refused_by_all("nowhere", "no such trace")

    def test_empty_directory(self):
        os.mkdir(self.path("empty"))
        self.refused_by_all("empty", "no log")

    def test_foreign_directory(self):
        os.mkdir(self.path("foreign"))
        self.write("foreign/notes.txt", "nothing of ours")
        self.refused_by_all("foreign", "no log")

    def test_file_for_trace(self):
        self.write("file", "nothing of ours")
        self.refused_by_all("file", "directory")

    def test_no_trace_named(self):
        for name in ["analyze", "replay", "info"]:
            self.refused(name, says="deadheat %s TRACE" % name)

    def test_foreign_log(self):
        os.mkdir(self.path("trace"))
        self.write("trace/1.log", "nothing of ours, though it has the name of a log: " + "x" * 200)
        self.refused_by_all("trace", "1.log")


class Record(Case):
    def test_missing_program(self):
        self.refused("record", "--", "./nowhere", says=["./nowhere", "no such program"])
        self.refused("check", "--", "nowhere-on-the-path", says=["nowhere-on-the-path", "no such program"])

    def test_not_executable(self):
        self.write("data", "not a program")
        self.refused("record", "--", "./data", says=["./data", "not executable"])
        self.refused("record", "--", self.directory, says=[self.directory, "directory"])

    def test_not_a_program(self):
        self.write("data", b"\0\0\0\0", 0o755)
        self.refused("record", "--", "./data", says=["./data", "xec"])

    def test_status(self):
        out, err = self.record(program("ends"), "7", status=7)
        self.assertEqual(out, b"last 63\n")
        self.assertEqual(complaints(err), [])
        report, _ = self.analyze()
        self.assertIs(report["summary"]["complete"], True)
        self.assertEqual(report["summary"]["launches"], 1)

    def test_signal(self):
        for number in [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT]:
            trace = "trace-%d" % number
            out, _ = self.record(program("ends"), "signal", str(int(number)), trace=trace, status=128 + number)
            self.assertEqual(out, b"last 63\n")
            report, err = self.analyze(trace)
            self.assertIs(report["summary"]["complete"], False)
            self.assertEqual(len(complaints(err)), 1, err)
            self.assertIn("did not end cleanly", err)

    def test_shell_script(self):
        self.write("script", "#!/bin/sh\necho before\n%s 3\necho after $?\nexit 5\n" % program("ends"), 0o755)
        out, _ = self.record("./script", status=5)
        self.assertEqual(out, b"before\nlast 63\nafter 3\n")
        self.assertEqual(self.analyze()[0]["summary"]["launches"], 1)

    def test_program_on_path(self):
        out, _ = self.record("sh", "-c", program("ends"))
        self.assertEqual(out, b"last 63\n")
        self.assertEqual(self.analyze()[0]["summary"]["launches"], 1)

    def test_two_processes(self):
        self.record("sh", "-c", "%s; %s" % (program("ends"), program("launches")))
        self.assertEqual(self.analyze()[0]["summary"]["launches"], 6)

    def test_no_cuda(self):
        status, out, err = self.deadheat("record", "-o", "trace", "--", program("no_cuda"))
        self.assertEqual((status, out), (0, b"no CUDA here\n"))
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("made no CUDA call", err)
        self.assertFalse(os.path.exists(self.path("trace")))
        status, out, err = self.deadheat("check", "--", program("no_cuda"))
        self.assertEqual((status, out), (2, b"no CUDA here\n"))
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("made no CUDA call", err)

    def test_existing_output(self):
        os.mkdir(self.path("there"))
        self.refused("record", "-o", "there", "--", program("ends"), says=["there", "already exists"])
        self.assertEqual(os.listdir(self.path("there")), [])

    def test_unwritable_output(self):
        self.write("file", "in the way")
        for place in ["/proc/trace", "file/trace", "/dev/null/trace"]:
            self.refused("record", "-o", place, "--", program("ends"), says=place)

    def test_output_in_new_directory(self):
        self.record(program("ends"), trace="some/where/trace")
        self.assertEqual(self.analyze("some/where/trace")[0]["summary"]["launches"], 1)

    def test_default_names(self):
        for name in ["run.deadheat", "run-2.deadheat", "run-3.deadheat"]:
            _, _, err = self.deadheat("record", "--", program("ends"))
            self.assertIn("recorded " + self.path(name), err)
            self.assertEqual(self.deadheat("info", name)[0], 0)

    def test_standard_output_untouched(self):
        for binary in ["ends", "launches"]:
            self.write("script", "#!/bin/sh\nprintf 'no end\\0of line'\n%s\nprintf '\\377\\n\\n'" % program(binary), 0o755)
            out, _ = self.record("./script", trace=binary)
            expected = {"ends": b"last 63\n", "launches": b"alpha 0\nalpha 1\nalpha 2\nhost\nfirst 4\n"}[binary]
            self.assertEqual(out, b"no end\0of line" + expected + b"\xff\n\n")

    def test_kernel_printf_in_order(self):
        for seed in ["1", "2", "3"]:
            out, _ = self.record(program("launches"), trace="trace" + seed, options=["--seed", seed])
            self.assertEqual(out, b"alpha 0\nalpha 1\nalpha 2\nhost\nfirst 4\n")

    def test_filters(self):
        for options, instrumented in [([], 5), (["--kernel", "alpha"], 3), (["--kernel", "^beta\\(int"], 2),
                                      (["--kernel", "none"], 0), (["--launch-skip", "2"], 3),
                                      (["--launch-count", "4"], 4), (["--launch-skip", "4", "--launch-count", "3"], 1),
                                      (["--kernel", "alpha", "--launch-skip", "1", "--launch-count", "1"], 1)]:
            trace = "trace" + "".join(re.findall(r"\w+", " ".join(options)))
            self.record(program("launches"), trace=trace, options=options)
            summary = self.analyze(trace)[0]["summary"]
            self.assertEqual((summary["launches"], summary["instrumented"]), (5, instrumented), options)
            self.assertEqual(summary["accesses"] > 0, instrumented > 0, options)

    def test_same_seed_same_trace(self):
        reports = []
        for trace in ["one", "two"]:
            self.record(twin("shared_reduce.racy"), trace=trace, options=["--seed", "5"])
            status, out, _ = self.deadheat("analyze", "--json", "-", trace)
            self.assertEqual(status, 1)
            reports.append(out)
        self.assertEqual(reports[0], reports[1])
        records = [self.deadheat("info", "--records", trace)[1] for trace in ["one", "two"]]
        strip = [re.sub(rb"(?m)^process .*\n|\b0x[0-9a-f]+|\b\d{10,}\b", b"", text) for text in records]
        self.assertEqual(strip[0], strip[1])

    def test_info(self):
        self.record(program("launches"))
        status, out, err = self.deadheat("info", "trace")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out.decode(), r"(?m)^launches +5 \(5 instrumented, 0 opaque\)$")
        self.assertIn("3 x", out.decode())
        self.assertNotIn("on 0 streams", out.decode())


class Builds(Case):
    """Executables that deadheat cannot run, or not all of."""

    def test_static_runtime(self):
        for name in ["record", "check"]:
            self.refused(name, "--", program("ends_static"),
                         says=["ends_static", "statically", "NVCC_APPEND_FLAGS='-cudart shared'"])

    def test_machine_code_only(self):
        _, err = self.record(program("ends_sass"))
        lines = complaints(err)
        self.assertEqual(len(lines), 1, err)
        for text in ["ends_sass", "no PTX", "NVCC_APPEND_FLAGS=", "code=compute_90"]:
            self.assertIn(text, lines[0])

    def test_machine_code_only_is_no_clean_bill(self):
        _, _, err = self.deadheat("check", "--json", "report", "--", program("ends_sass"))
        report = self.json("report")
        self.assertIs(report["summary"]["complete"], False, err)
        self.assertEqual(len(report["warnings"]), 1)
        self.assertIn("fill(int*)", report["warnings"][0])

    def test_refused_kernels(self):
        out, err = self.record(program("refused"), "all")
        self.assertEqual(out, b"fetch 801\nmatrix 801\nlast 32\n")
        lines = complaints(err)
        self.assertEqual(len(lines), 2, err)
        for kernel, instruction in [("fetch(unsigned long long, float*)", "tex.1d"),
                                    ("matrix(int*)", "mma.sync.aligned.m16n8k8")]:
            self.assertEqual(sum(kernel in line and instruction in line for line in lines), 1, err)
        report, _ = self.analyze()
        summary = report["summary"]
        self.assertEqual((summary["launches"], summary["instrumented"], summary["complete"]), (1, 1, False))
        self.assertEqual(len(report["warnings"]), 2)

    def test_refused_kernels_not_launched(self):
        status, out, err = self.deadheat("check", "--", program("refused"))
        self.assertEqual((status, out), (0, b"last 32\n"), err)
        self.assertEqual(len(complaints(err)), 2, err)

    def fat_binary(self, name):
        """(bytes of the executable, offset and size of its section .nv_fatbin)."""
        with open(program(name), "rb") as file:
            data = file.read()
        table, = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
        for section in sections:
            start = sections[names][4] + section[0]
            if data[start:data.index(b"\0", start)] == b".nv_fatbin":
                return data, section[4], section[5]
        self.fail("no .nv_fatbin in " + name)

    def run_patched(self, name, patch, one_line=True):
        data, offset, size = self.fat_binary("ends")
        changed = bytearray(data)
        section = bytearray(data[offset:offset + size])
        patch(section)
        self.assertEqual(len(section), size)
        changed[offset:offset + size] = section
        self.write(name, bytes(changed), 0o755)
        status, out, err = self.deadheat("record", "-o", name + ".trace", "--", "./" + name)
        self.assertEqual(status, 0, "%s: %s" % (name, err))
        self.assertIn(b"last ", out)
        if one_line:
            self.assertEqual(len(complaints(err)), 1, "%s: %s" % (name, err))
            self.assertIn(name, complaints(err)[0])
        return out, err

    def test_damaged_fat_binary(self):
        def container(section):  # the one with the PTX: an empty one may lie before it
            return bytes(section).rindex(struct.pack("<I", 0xBA55ED50))

        def magic(section):
            section[container(section)] ^= 0xFF

        def length(section):
            struct.pack_into("<Q", section, container(section) + 8, 1 << 40)

        def length_beyond_the_image(section):
            struct.pack_into("<Q", section, container(section) + 8, 60 << 20)

        def entry_beyond_the_image(section):
            struct.pack_into("<Q", section, container(section) + 8, 60 << 20)
            struct.pack_into("<Q", section, container(section) + 16 + 8, 50 << 20)

        def cut(section):  # the second half is missing
            section[len(section) // 2:] = bytes(len(section) - len(section) // 2)

        for patch in [magic, length, length_beyond_the_image, entry_beyond_the_image, cut]:
            with self.subTest(patch.__name__):
                self.run_patched(patch.__name__, patch)

    def test_flipped_bytes_of_fat_binary(self):
        # Some flips do not matter, or make other PTX that can be run: what is asked for is that nothing breaks.
        _, _, size = self.fat_binary("ends")
        for place in range(0, size, max(1, size // 24)):
            def flip(section):
                section[place] ^= 0xFF
            with self.subTest(place=place):
                _, err = self.run_patched("flip%d" % place, flip, one_line=False)
                self.assertLessEqual(len(complaints(err)), 1, err)


class Faults(Case):
    """Memory errors: what the program gets, what the user reads, what the report says."""

    def fault(self, which, error, thread, kernel, nearest=None, line=True, text=""):
        status, out, err = self.deadheat("check", "--json", "report", "--", program("faults"), which)
        self.assertEqual(status, 0, err)
        self.assertEqual(out.decode(), "launch 0\nsync %d\nmalloc %d\nthe host goes on\n" % (error, error))
        lines = complaints(err)
        self.assertEqual(len(lines), 1, err)
        number = marker_line("faults.cu", which.split("_")[0] if which == "assert" else which)
        for part in [kernel, "faults.cu:%d" % number, "thread (%d,0,0)" % thread, text]:
            self.assertIn(part, lines[0])
        report = self.json("report")
        self.assertEqual(report["program_status"], 0)
        self.assertEqual(len(report["memory_errors"]), 1)
        entry = report["memory_errors"][0]
        self.assertEqual(os.path.basename(entry["file"] or "none"), "faults.cu")
        self.assertEqual(entry["line"], number)
        self.assertEqual((entry["block"], entry["thread"]), ([0, 0, 0], [thread, 0, 0]))
        self.assertIn(kernel, entry["kernel"])
        if nearest:
            self.assertEqual((entry["nearest"]["offset"], entry["nearest"]["size"]), nearest)
            self.assertEqual(entry["bytes"], 4)
        return entry

    def test_fault_global_out_of_bounds(self):
        self.fault("global_out", 700, 3, "global_out(int*, int)", (128, 128), text="write of 4 bytes")

    def test_fault_shared_out_of_bounds(self):
        self.fault("shared_out", 700, 4, "shared_out(int*, int)", text="read of 4 bytes")

    def test_fault_misaligned(self):
        self.fault("misaligned", 716, 5, "misaligned(char*)", (1, 128), text="write of 4 bytes")

    def test_fault_assert(self):
        entry = self.fault("assert", 710, 6, "failing_assert(int const*)", text="data == nullptr")
        self.assertIn("data == nullptr", entry["text"])

    def test_fault_trap(self):
        self.fault("trap", 719, 7, "trapping()")

    def test_fault_null_pointer(self):
        self.fault("null", 700, 8, "null_pointer(int*)", text="write of 4 bytes at 0x0")


class Damage(Case):
    """Traces that are not whole."""

    def test_killed_recording(self):
        process = subprocess.Popen([settings.deadheat, "record", "-o", "trace", "--", program("endless")],
                                   cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            begin = time.monotonic()
            while int(process.stdout.readline()) < 300 or time.monotonic() - begin < 3:
                self.assertLess(time.monotonic() - begin, TIME_LIMIT)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # deadheat and the program
            process.communicate()
        self.assertTrue(self.log().endswith(".log.incomplete"))
        report, err = self.analyze()
        self.assertIs(report["summary"]["complete"], False)
        self.assertGreater(report["summary"]["launches"], 50)
        self.assertEqual(len(complaints(err)), 1, err)
        self.assertIn("did not end cleanly", err)
        _, out, _ = self.deadheat("analyze", "trace")
        self.assertIn("trace incomplete", out.decode())
        status, _, err = self.deadheat("info", "trace")
        self.assertEqual((status, len(err.splitlines())), (0, 1), err)

    def chunked(self):
        """A trace whose log has several chunks; their offsets."""
        process = subprocess.Popen([settings.deadheat, "record", "-o", "trace", "--", program("endless")],
                                   cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        begin = time.monotonic()
        try:
            while process.stdout.readline() and time.monotonic() - begin < 4:
                pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        data = self.read(self.log())
        chunks = [match.start() for match in re.finditer(re.escape(struct.pack("<Q", 0xF1C7A59E4B4E4843)), data)]
        self.assertGreater(len(chunks), 3)
        return data, chunks

    def test_flipped_byte(self):
        data, chunks = self.chunked()
        whole = self.analyze()[0]["summary"]
        place = chunks[2] + 56 + 20
        changed = bytearray(data)
        changed[place] ^= 0x10
        self.write(self.log(), bytes(changed))
        report, err = self.analyze()
        self.assertIs(report["summary"]["complete"], False)
        self.assertGreater(report["summary"]["launches"], 0)
        self.assertLess(report["summary"]["launches"], whole["launches"])
        lost = [line for line in complaints(err) if "lost chunk" in line]
        self.assertEqual(len(lost), 1, err)
        self.assertRegex(lost[0], r"checksum does not match: lost chunk 2 \(\d+ records\) at offset %d$" % chunks[2])
        for line in complaints(err):  # what hangs on the lost records is left out, in one more line
            self.assertIn(os.path.basename(self.log()), line)
        self.assertLessEqual(len(complaints(err)), 3, err)

    def test_flipped_byte_of_a_finished_log(self):
        self.record(twin("shared_reduce.racy"))
        data = bytearray(self.read(self.log()))
        for place in range(60, len(data), max(1, len(data) // 12)):
            changed = bytearray(data)
            changed[place] ^= 0x10
            self.write(self.log(), bytes(changed))
            with self.subTest(place=place):
                status, out, err = self.deadheat("analyze", "--json", "-", "trace")
                self.assertIn(status, (0, 1, 2), err)
                self.assertGreaterEqual(len(complaints(err)), 1)
                if status != 2:
                    self.assertIs(json.loads(out)["summary"]["complete"], False)

    def test_truncated_log(self):
        self.record(twin("shared_reduce.racy"))
        data = self.read(self.log())
        for size in [len(data) - 1, len(data) - 100, len(data) // 2, 60, 48, 47, 1, 0]:
            self.write(self.log(), data[:size])
            with self.subTest(size=size):
                status, out, err = self.deadheat("analyze", "--json", "-", "trace")
                self.assertIn(status, (0, 1, 2), err)
                lost = [line for line in complaints(err) if "did not end cleanly" not in line]
                self.assertLessEqual(len(lost), 1, err)
                self.assertGreaterEqual(len(complaints(err)), 1, err)
                if status != 2:
                    self.assertIs(json.loads(out)["summary"]["complete"], False)

    def test_missing_blobs(self):
        self.record(twin("shared_reduce.racy"))
        shutil.rmtree(self.path("trace/blobs"))
        status, out, err = self.deadheat("replay", "trace")
        self.assertIn(status, (0, 2), err)
        self.assertEqual(len(complaints(err)), 1, err)
        self.assertIn("blob", err)


class Witness(Case):
    def test_missing_witness(self):
        self.refused("replay", "--witness", "nowhere", says=["nowhere", "no such file"])

    def test_not_a_witness(self):
        self.write("notes.txt", "nothing of ours, " * 10)
        self.write("nothing", "")
        os.mkdir(self.path("directory"))
        self.refused("replay", "--witness", "notes.txt", says=["notes.txt", "is not a witness"])
        self.refused("replay", "--witness", "nothing", says=["nothing", "is not a witness"])
        self.refused("replay", "--witness", "directory", says="directory")

    def test_damaged_witness(self):
        witness = self.witness()
        data = self.read(witness)
        for place in [13, 17, 25, 33, 40, len(data) // 2, len(data) - 1]:
            changed = bytearray(data)
            changed[place] ^= 0x10
            self.write("changed", bytes(changed))
            self.refused("replay", "--witness", "changed", says=["changed", "damaged"])
        for size in [len(data) - 1, len(data) // 2, 41, 40]:
            self.write("changed", data[:size])
            self.refused("replay", "--witness", "changed", says=["changed", "damaged"])

    def test_witness_of_another_version(self):
        witness = self.witness()
        data = bytearray(self.read(witness))
        ours, = struct.unpack_from("<I", data, 8)
        struct.pack_into("<I", data, 8, ours + 41)
        self.write("changed", bytes(data))
        self.refused("replay", "--witness", "changed",
                     says=["changed", "version %d," % (ours + 41), "reads version %d" % ours])

    def test_witness_repeats(self):
        witness = self.witness()
        os.rename(self.path("trace"), self.path("elsewhere"))  # it needs no trace
        digests = set()
        for _ in range(5):
            status, out, err = self.deadheat("replay", "--json", "-", "--witness", witness)
            self.assertEqual((status, err), (1, ""))
            found = json.loads(out)["witness"]
            self.assertIs(found["as_recorded"], True)
            digests.add((found["digest_a"], found["digest_b"]))
        self.assertEqual(len(digests), 1, digests)
        a, b = digests.pop()
        self.assertNotEqual(a, b)


class Reports(Case):
    def test_json_alone(self):
        self.record(twin("shared_reduce.racy"))
        report, err = self.analyze(status=1)
        self.assertEqual((len(report["races"]), err), (1, ""))
        status, out, err = self.deadheat("replay", "--json", "-", "trace")
        self.assertEqual((status, json.loads(out)["races"][0]["verdict"]), (1, "harmful"), err)

    def test_json_alone_from_check(self):
        status, out, err = self.deadheat("check", "--json", "-", "--", twin("shared_reduce.racy"))
        self.assertEqual((status, json.loads(out)["races"][0]["verdict"]), (1, "harmful"), err)
        self.assertRegex(err, r"(?m)^checksum \d+$")  # what the program prints

    def test_program_keeps_standard_output(self):
        status, out, err = self.deadheat("check", "--json", "report", "--", twin("shared_reduce.fixed"))
        self.assertEqual(status, 0, err)
        self.assertRegex(out.decode(), r"\Achecksum \d+\n\Z")
        self.assertEqual(self.json("report")["races"], [])

    def test_program_status(self):
        for words, expected in [(["0"], 0), (["9"], 9), (["signal", "15"], 143)]:
            status, _, err = self.deadheat("check", "--json", "report", "--", program("ends"), *words)
            self.assertEqual(status, 0, err)
            self.assertEqual(self.json("report")["program_status"], expected)

    def test_check_leaves_no_trace(self):
        self.deadheat("check", "--", program("ends"))
        self.assertEqual(os.listdir(self.directory), [])
        self.deadheat("check", "-o", "kept", "--", program("ends"))
        self.assertEqual(self.analyze("kept")[0]["summary"]["launches"], 1)

    def test_log_file(self):
        for name, words in [("check", ["--", twin("shared_reduce.racy")]), ("analyze", ["trace"])]:
            if name == "analyze":
                self.record(twin("shared_reduce.racy"))
            status, out, err = self.deadheat(name, "--log-file", name + ".txt", *words)
            self.assertEqual(status, 1, err)
            self.assertNotIn("shared_reduce.cu", out.decode() + err)
            self.assertIn("shared_reduce.cu", self.read(name + ".txt").decode())

    def test_unwritable_report(self):
        self.record(twin("shared_reduce.racy"))
        for option in ["--json", "--log-file"]:
            self.refused("analyze", option, "nowhere/report", "trace", says=["cannot write", "nowhere/report"])

    def test_suppress(self):
        self.record(twin("shared_reduce.racy"))
        for line in ["race:shared_reduce.cu:*", "kernel:reduce(*"]:
            self.write("list", "# known\n\n%s\n" % line)
            report, err = self.analyze(options=["--suppress", "list"])
            self.assertEqual(err, "")
            self.assertEqual(report["summary"]["races"], 0)
            self.assertIs(report["races"][0]["suppressed"], True)
        status, _, err = self.deadheat("check", "--suppress", "list", "--", twin("shared_reduce.racy"))
        self.assertEqual(status, 0, err)

    def test_suppress_unused(self):
        self.record(twin("shared_reduce.racy"))
        self.write("list", "race:shared_reduce.cu:*\nrace:other.cu:12\n")
        _, err = self.analyze(options=["--suppress", "list"])
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertRegex(err, r"^deadheat: unused suppression: race:other\.cu:12 \(list:2\)$")

    def test_suppress_malformed(self):
        self.record(twin("shared_reduce.racy"))
        for line in ["nonsense", "race", "race:", "file:a.cu"]:
            self.write("list", "# first\n%s\n" % line)
            self.refused("analyze", "--suppress", "list", "trace", says=["list:2", "'%s'" % line])
        self.refused("analyze", "--suppress", "nowhere", "trace", says=["nowhere", "cannot read"])

    def test_suppress_malformed_before_running(self):
        self.write("list", "nonsense\n")
        self.refused("check", "--suppress", "list", "--", program("ends"), says=["list:1", "'nonsense'"])

    def test_no_such_race(self):
        self.record(twin("shared_reduce.racy"))
        for race in ["0", "2", "4000000000"]:
            self.refused("replay", "--race", race, "trace", says=["no race " + race, "trace"])

    def test_strict(self):
        self.record(twin("shared_warp_volatile.racy"))
        report, _ = self.analyze()
        self.assertEqual({race["class"] for race in report["races"]}, {"strong"})
        self.analyze(options=["--strict"], status=1)
        self.record(twin("shared_warp_volatile.fixed"), trace="fixed")
        self.analyze("fixed", options=["--strict"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, type=os.path.abspath, help="the deadheat command")
    parser.add_argument("--programs", required=True, type=os.path.abspath, help="compiled sources of this folder")
    parser.add_argument("--twins", required=True, type=os.path.abspath, help="compiled sources of tests/programs")
    parser.add_argument("--work", required=True, type=os.path.abspath, help="folder for what the cases write")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names without test_; none: all")
    parser.parse_args(namespace=settings)
    os.environ.pop("DEADHEAT_OPTIONS", None)
    suite, known = unittest.TestSuite(), set()
    for kind in Case.__subclasses__():
        for name in unittest.TestLoader().getTestCaseNames(kind):
            known.add(name[len("test_"):])
            if not settings.cases or name[len("test_"):] in settings.cases:
                suite.addTest(kind(name))
    unknown = set(settings.cases) - known
    if unknown:
        parser.error("no such case: " + ", ".join(sorted(unknown)))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
