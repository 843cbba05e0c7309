"""Traces and witnesses that are cut, changed or not there."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

from cli_case import TIME_LIMIT, Case, complaints, program, settings, twin


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

    def test_ended_check(self):
        """A check that is ended while it replays takes its trace with it; what was not its own stays."""
        for number, ends in ((signal.SIGTERM, True), (signal.SIGHUP, False)):
            folder = self.path("temporary")
            os.makedirs(os.path.join(folder, "others"), exist_ok=True)
            process = subprocess.Popen(
                ["nohup"] * (not ends) +
                [settings.deadheat, "check", "--explore", "1000000", "--explore-seconds", "100000" if ends else "3", "--",
                 twin("shared_reduce.racy")], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=folder))
            begin = time.monotonic()
            while len(os.listdir(folder)) < 3:  # the trace, and one that is explored
                self.assertLess(time.monotonic() - begin, TIME_LIMIT)
                time.sleep(0.01)
            process.send_signal(number)
            self.assertEqual(process.wait(TIME_LIMIT), -number if ends else 1)
            self.assertEqual(os.listdir(folder), ["others"])

    @staticmethod
    def chunks_of(data):
        return [match.start() for match in re.finditer(re.escape(struct.pack("<Q", 0xF1C7A59E4B4E4843)), data)]

    def chunked(self):
        """A trace whose log has several chunks; their offsets."""
        process = subprocess.Popen([settings.deadheat, "record", "-o", "trace", "--", program("endless")],
                                   cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        begin = looked = time.monotonic()
        chunks = []
        try:  # as many chunks as a machine that is busy with other things takes its time for
            while process.stdout.readline() and len(chunks) < 6 and time.monotonic() - begin < TIME_LIMIT:
                if time.monotonic() - looked > 0.5:
                    looked, chunks = time.monotonic(), self.chunks_of(self.read(self.log()))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        data = self.read(self.log())
        chunks = self.chunks_of(data)
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
        # The chunk, the end; what hangs on the lost records, contradicts itself without them, or is not ordered: a line each.
        for line in complaints(err):
            self.assertIn(os.path.basename(self.log()), line)
        self.assertLessEqual(len(complaints(err)), 5, err)

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

    def test_logs_that_are_no_files(self):
        self.record(twin("shared_reduce.racy"))
        log = self.log()
        os.rename(self.path(log), self.path("log"))

        def said_of(make):
            make(self.path(log))
            line = self.refused("analyze", "trace", says=os.path.basename(log))
            self.refused("info", "trace", says=os.path.basename(log))
            (os.rmdir if os.path.isdir(self.path(log)) else os.unlink)(self.path(log))
            return line

        self.assertIn("is not a regular file", said_of(os.mkfifo))  # and nobody waits for who may write to it
        self.assertIn("is not a regular file", said_of(os.mkdir))
        self.assertIn("is not a regular file", said_of(lambda name: os.symlink("/dev/zero", name)))
        self.assertIn("is not a regular file", said_of(lambda name: os.symlink("/dev/null", name)))
        self.assertIn("No such file", said_of(lambda name: os.symlink("nowhere", name)))
        # Beside one that can be read.
        os.rename(self.path("log"), self.path(log))
        os.mkdir(self.path("trace/5.log"))
        self.write("trace/6.log", "")
        report, err = self.analyze(status=1)
        self.assertIs(report["summary"]["complete"], False)
        self.assertEqual(len(report["races"]), 1)
        self.assertEqual([line.split(":")[0] for line in complaints(err)], ["trace/5.log", "trace/6.log"], err)

    def test_blob_that_is_no_file(self):
        self.record(twin("shared_reduce.racy"))
        [blob] = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("trace/blobs")) for name in names]
        os.unlink(blob)
        os.mkfifo(blob)
        self.refused("replay", "trace", says=[os.path.basename(blob), "is not a regular file"])

    def test_logs_nobody_may_read(self):
        self.record(twin("shared_reduce.racy"))
        os.chmod(self.path(self.log()), 0)
        if os.access(self.path(self.log()), os.R_OK):
            self.skipTest("who runs this may read everything")
        self.refused("analyze", "trace", says=[os.path.basename(self.log()), "Permission denied"])

    def test_two_analyses_at_once(self):
        self.record(twin("shared_reduce.racy"))
        processes = [subprocess.Popen([settings.deadheat, "analyze", "--json", "-", "trace"], cwd=self.directory,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for _ in range(6)]
        answers = [process.communicate(timeout=TIME_LIMIT) for process in processes]
        self.assertEqual({process.returncode for process in processes}, {1})
        self.assertEqual(len(set(answers)), 1)

    def test_missing_blobs(self):
        self.record(twin("shared_reduce.racy"))
        shutil.rmtree(self.path("trace/blobs"))
        status, out, err = self.deadheat("replay", "trace")
        self.assertIn(status, (0, 2), err)
        self.assertEqual(len(complaints(err)), 1, err)
        self.assertIn("blob", err)

    def test_missing_code(self):
        """Races are found without it; what the code does with values is not known, which a line says."""
        self.record(twin("shared_reduce.racy"))
        whole, err = self.analyze(status=1)
        self.assertEqual(complaints(err), [])
        [blob] = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("trace/blobs")) for name in names]
        for spoil in (lambda: self.write(blob, b"garbage"), lambda: os.unlink(blob)):
            spoil()
            report, err = self.analyze(status=1)
            self.assertEqual(len(report["races"]), len(whole["races"]))
            self.assertEqual(len(complaints(err)), 1, err)
            self.assertIn("what this module's code does with the values", complaints(err)[0])


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

    def test_witness_reports(self):
        witness = self.witness()
        status, out, err = self.deadheat("replay", "--witness", witness, "--log-file", "text", "--sarif", "sarif",
                                         "--json", "json")
        self.assertEqual((status, out, err), (1, b"", ""))
        self.assertIn("the same bits as when the witness was made", self.read("text").decode())
        self.assertEqual(len(json.loads(self.read("sarif"))["runs"][0]["results"]), 1)
        self.assertIn(json.loads(self.read("json"))["witness"]["digest_a"], self.read("text").decode())

    def test_vary_has_no_races(self):
        self.refused("replay", "--vary", "3", "--sarif", "sarif", "trace", says=["--vary", "--sarif"])

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
