"""Reports: JSON, SARIF, suppressions, exit statuses."""
import copy
import json
import os
import pty
import subprocess
import threading
import time

import sarif_check
from cli_case import Case, marker_line, program, settings, twin


class Reports(Case):
    def test_kernels_of_one_template(self):
        self.record(program("templates"))
        report, _ = self.analyze(status=1)
        [race] = report["races"]
        lines = {race[side]["line"] for side in ("first", "second")}
        self.assertEqual(lines, {marker_line("templates.cu", "WRITE"), marker_line("templates.cu", "READ")})
        kernels = {"turn<int>(int*)", "turn<double>(double*)"}
        self.assertIn(race["first"]["kernel"].replace("void ", ""), kernels)
        [other] = kernels - {race["first"]["kernel"].replace("void ", "")}
        self.assertRegex(race["why"], "; the same lines race in (void )?%s too" % other.replace("*", "[*]").replace("(", "[(]").replace(")", "[)]"))

    def test_suppressed_in_one_kernel_of_a_template(self):
        """It is left for the other; where every kernel has its suppression, it goes."""
        self.record(program("templates"))
        for kernel in ("int", "double"):
            for line in ("kernel:*turn<%s>*", "function:*turn<%s>*"):
                self.write("list", line % kernel)
                report, err = self.analyze(status=1, options=["--suppress", "list"])
                race, = report["races"]
                self.assertNotIn("suppressed", race)
                self.assertEqual([name.replace("void ", "") for name in race["suppressed_in"]], ["turn<{0}>({0}*)".format(kernel)])
                self.assertIn("matched 1 race", err)
                status, out, _ = self.deadheat("analyze", "--suppress", "list", "trace")
                self.assertEqual(status, 1)
                self.assertRegex(out.decode(), r"(?m)^\[suppressed in (void )?turn<%s>" % kernel)
        self.write("list", "kernel:*turn<int>*\nfunction:*turn<double>*")
        report, _ = self.analyze(options=["--suppress", "list"])
        race, = report["races"]
        self.assertEqual((race.get("suppressed"), report["summary"]["races"]), (True, 0))
        self.assertNotIn("suppressed_in", race)

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

    def test_explored_schedules(self):
        status, _, err = self.deadheat("check", "--json", "one", "--", program("hidden"))
        self.assertEqual((status, self.json("one")["races"]), (0, []), err)
        status, _, err = self.deadheat("check", "--explore", "8", "--json", "more", "--", program("hidden"))
        self.assertEqual(status, 1, err)
        [race] = self.json("more")["races"]  # one line, of which two instructions race in one schedule or the other
        lines = {race["first"]["line"], race["second"]["line"]}
        self.assertEqual(lines, {marker_line("hidden.cu", "WRITE"), marker_line("hidden.cu", "READ")})
        self.assertGreater(race["explored"], 0)
        self.assertEqual(race["verdict"], "harmful")
        self.assertIn("explored schedule", err)
        status, out, err = self.deadheat("replay", "--witness", race["witness"])
        self.assertEqual(status, 1, err)
        self.assertIn(b"the same bits", out)

    def test_explored_fault(self):
        """What an explored schedule shows has numbers behind those of the recorded run, and names its fault by them."""
        status, _, err = self.deadheat("check", "--explore", "8", "--json", "report", "--", program("hidden_fault"))
        self.assertEqual(status, 1, err)
        report = self.json("report")
        lines = {name: marker_line("hidden_fault.cu", name) for name in ("SEEN", "FILL", "FAR", "MIRRORED")}
        found = {race["id"]: (sorted((race["first"]["line"], race["second"]["line"])), "explored" in race,
                              race.get("same_fault_as")) for race in report["races"]}
        self.assertEqual(found[1], ([lines["SEEN"]] * 2, False, None))
        self.assertEqual(sorted(found), [1, 2, 3])
        self.assertCountEqual([found[2][0], found[3][0]],
                              [[lines["FILL"], lines["FAR"]], [lines["FILL"], lines["MIRRORED"]]])
        self.assertEqual((found[2][1:], found[3][1:]), ((True, None), (True, 2)))
        self.assertEqual(report["summary"]["faults"], 2)

    def test_seconds_for_a_fault(self):
        """Of races that one fault makes only as many are replayed as one race has time for; the others are counted."""
        self.record(twin("shared_bitonic_steps.racy"))
        status, _, err = self.deadheat("replay", "--seconds", "0.001", "--json", "report", "trace")
        self.assertEqual(status, 1, err)
        races = self.json("report")["races"]
        left_out = [race["id"] for race in races if "verdict" not in race]
        self.assertEqual(races[0]["verdict"], "harmful")
        self.assertGreater(len(left_out), len(races) // 2)
        self.assertIn("%d races of the same fault as race 1, which is harmful, were not replayed" % len(left_out), err)
        self.deadheat("replay", "--seconds", "0.001", "--race", str(left_out[-1]), "--json", "one", "trace")
        self.assertEqual([race["id"] for race in self.json("one")["races"] if "verdict" in race], left_out[-1:])

    def test_host_function_refills(self):
        """What a host function writes into page-locked memory, beside a copy that reads it. Where a kernel was given an
        address of such memory, it is not looked at."""
        status, out, err = self.deadheat("check", "--json", "report", "--", program("refills"))
        self.assertEqual(status, 1, err)
        [race] = self.json("report")["races"]
        self.assertEqual((race["level"], race["certainty"]), ("stream", "certain"))
        self.assertCountEqual([race["first"]["kernel"], race["second"]["kernel"]],
                              ["cudaMemcpyAsync", "cudaLaunchHostFunc"])
        self.assertEqual(race["verdict"], "harmful")
        status, out, err = self.deadheat("replay", "--witness", race["witness"])
        self.assertEqual(status, 1, err)
        for ordered in ("waits", "told", "mapped"):
            status, _, err = self.deadheat("check", "--json", "report", "--", program("refills"), ordered)
            self.assertEqual((status, self.json("report")["races"]), (0, []), err)

    def test_explored_decisions(self):
        """Bodies of graphs' conditions accuse nobody in schedules in which they would not have run."""
        status, _, err = self.deadheat("check", "--explore", "8", "--json", "report", "--", program("decides"))
        self.assertEqual((status, self.json("report")["races"]), (0, []), err)
        self.assertRegex(err, r"of \d+ explored schedules only the part was looked at up to where a condition of a graph")

    def test_every_schedule_of_a_small_run(self):
        self.record(twin("global_dead_write.racy"))

        def why(*options):
            status, _, err = self.deadheat("replay", *options, "--json", "report", "trace")
            self.assertEqual(status, 0, err)
            [race] = self.json("report")["races"]
            self.assertEqual(race["verdict"], "benign")
            return race["verdict_why"]

        self.assertRegex(why(), r"^no schedule of (\d+) changes the output: all \1 schedules explored, "
                                r"old values of memory included$")
        self.assertRegex(why("--systematic", "3"), r"these are not all: there are more than [1-3]$")
        self.assertEqual(why("--systematic", "0"), "the outputs agree in every schedule tried")

    def test_orders_that_commute_are_one_schedule(self):
        # Stores of one value, stores beside a set to the same bytes, a copy to where nobody reads.
        for name in ("shared_same_value", "stream_same_zeros", "stream_unused_copy"):
            self.record(twin(name + ".racy"), trace=name)
            status, _, err = self.deadheat("replay", "--json", "report", name)
            self.assertEqual(status, 0, err)
            [race] = self.json("report")["races"]
            self.assertEqual(race["verdict"], "benign")
            self.assertRegex(race["verdict_why"], "^every schedule does the same: ")

    def test_writes_of_one_value_are_tried_a_few_times(self):
        self.record(twin("shared_same_bounds.racy"), trace="alike")
        self.deadheat("replay", "--systematic", "0", "--json", "report", "alike")
        races = self.json("report")["races"]
        self.assertEqual([(race["verdict"], race["same_value"]) for race in races], [("benign", True)] * 2)
        self.assertLessEqual(max(race["schedules"] for race in races), 8) # there are 16 instances of each

    def test_seconds_for_schedules(self):
        began = time.monotonic()
        status, _, err = self.deadheat("check", "--explore", "1000000", "--explore-seconds", "0.5", "--json", "report",
                                       "--", program("hidden"))
        self.assertEqual(status, 1, err)
        self.assertRegex(err, r"explored \d+ of 1000000 schedules: --explore-seconds were over")
        self.record(program("hidden"))
        self.deadheat("replay", "--vary", "1000000", "--explore-seconds", "0.5", "--json", "report", "trace")
        self.assertLess(self.json("report")["variation"]["schedules"], 1000000)
        self.assertLess(time.monotonic() - began, 60)

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
        for option in ["--json", "--sarif", "--log-file"]:
            for path in ["nowhere/report", "trace", "/proc/report"]:
                self.refused("analyze", option, path, "trace", says=["cannot write", path])

    def test_unwritable_destinations_of_check(self):
        """What cannot be written is said before the program runs, or loses nothing but itself."""
        for option in ["--json", "--sarif", "--log-file", "--witness-dir"]:
            path = "/proc/nowhere" if option == "--witness-dir" else "nowhere/report"
            self.refused("check", "-o", "kept", option, path, "--", twin("shared_reduce.racy"),
                         says=["cannot write", path])
            self.assertEqual(os.listdir(self.directory), [])
        for option in ["--json", "--sarif", "--log-file"]:
            status, out, err = self.deadheat("check", "-o", "kept" + option, option, "/dev/full", "--",
                                             twin("shared_reduce.racy"))
            self.assertEqual((status, err.splitlines()[-1]), (2, "deadheat: /dev/full: cannot write"))
            self.assertIn("shared_reduce.cu", err)
            self.analyze("kept" + option, status=1)

    def test_report_in_the_trace(self):
        status, _, err = self.deadheat("check", "-o", "new/trace/", "--json", "new/trace/report", "--witness-dir",
                                       "new/trace/witnesses", "--", twin("shared_reduce.racy"))
        self.assertEqual(status, 1, err)
        self.assertEqual(len(self.json("new/trace/report")["races"]), len(os.listdir(self.path("new/trace/witnesses"))))

    def test_unwritable_witnesses(self):
        """Where witnesses cannot be written races are races all the same."""
        self.write("deadheat-witnesses", "in the way")
        status, out, err = self.deadheat("check", "--", twin("shared_reduce.racy"))
        self.assertEqual(status, 2, err)
        self.assertIn("cannot write", err.splitlines()[-1])
        self.assertIn("shared_reduce.cu", err)
        self.record(twin("shared_reduce.racy"))
        self.refused("replay", "-o", "deadheat-witnesses", "trace", says=["cannot write", "deadheat-witnesses"])
        self.assertEqual(self.deadheat("check", "--", twin("shared_reduce.fixed"))[0], 0)

    def test_full_disk(self):
        self.record(twin("shared_reduce.racy"))
        for words in (["analyze", "trace"], ["analyze", "--json", "-", "trace"], ["info", "trace"], ["--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([settings.deadheat, *words], cwd=self.directory, stdout=full,
                                      stderr=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr), (2, b"deadheat: cannot write to standard output\n"), words)
        for option in ["--json", "--sarif", "--log-file"]:
            status, out, err = self.deadheat("analyze", option, "/dev/full", "trace")
            self.assertEqual((status, err.splitlines()[-1]), (2, "deadheat: /dev/full: cannot write"))
            self.assertIn("shared_reduce.cu", out.decode() + err)

    def test_colors(self):
        self.record(twin("shared_reduce.racy"))

        def shown(**variables):
            leader, follower = pty.openpty()
            environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
            done = subprocess.run([settings.deadheat, "analyze", "trace"], cwd=self.directory, stdout=follower,
                                  stderr=subprocess.PIPE, env={**environment, "TERM": "xterm", **variables})
            os.close(follower)
            text = os.read(leader, 1 << 20)
            os.close(leader)
            self.assertEqual(done.returncode, 1, done.stderr)
            return b"\033[" in text

        self.assertTrue(shown())
        self.assertFalse(shown(NO_COLOR="1"))
        self.assertFalse(shown(TERM="dumb"))
        self.assertNotIn(b"\033[", self.deadheat("analyze", "trace")[1])

    def test_suppressions_from_a_pipe(self):
        self.record(twin("shared_reduce.racy"))
        os.mkfifo(self.path("pipe"))
        for _ in range(2):  # with a byte order mark and CRLF, as some editors write
            writer = threading.Thread(target=self.write, args=("pipe", b"\xef\xbb\xbfkernel:reduce(*\r\n", 0o600))
            writer.start()
            report, _ = self.analyze(options=["--suppress", "pipe"])
            writer.join()
            self.assertEqual(report["summary"]["races"], 0)

    def test_suppress(self):
        self.record(twin("shared_reduce.racy"))
        for line in ["race:shared_reduce.cu:*", "kernel:reduce(*"]:
            self.write("list", "# known\n\n%s\n" % line)
            report, err = self.analyze(options=["--suppress", "list"])
            self.assertEqual(err, "deadheat: suppression: %s (list:3) matched 1 race\n" % line)
            self.assertEqual(report["summary"]["races"], 0)
            self.assertIs(report["races"][0]["suppressed"], True)
        status, _, err = self.deadheat("check", "--suppress", "list", "--", twin("shared_reduce.racy"))
        self.assertEqual(status, 0, err)

    def test_benign_use_of_freed_memory(self):
        """Outputs that agree are no excuse for it."""
        self.deadheat("check", "--json", "report", "--", twin("global_heap_handover.racy"))
        with open(self.path("report")) as file:
            races = {race["kind"]: race for race in json.load(file)["races"]}
        self.assertEqual(races["write-free"]["verdict"], "benign")
        self.assertIn("who uses memory behind its free is wrong", races["write-free"]["verdict_why"])
        self.assertNotIn("free", races["read-write"]["verdict_why"])

    def test_suppress_what_does_not_matter(self):
        """Reads of what is not used, and copies that lack a proxy fence alone; other races with the same line stay."""
        self.write("list", "unused:*.cu:*\nproxy:*.cu:*\n")
        for program, how in (("global_unused_read", "unused_read"), ("shared_copy_fence", "lacks_only_proxy_fence"),
                             ("global_dead_read", None), ("shared_bulk_fence", None), ("shared_async_wait", None)):
            status, out, err = self.deadheat("check", "--suppress", "list", "--schedules", "2", "--json", "report", "--",
                                             twin(program + ".racy"))
            with open(self.path("report")) as file:
                race, = json.load(file)["races"]
            self.assertEqual([key for key in ("unused_read", "lacks_only_proxy_fence") if race[key]], [how] if how else [])
            self.assertEqual((status, race.get("suppressed", False)), (0, True) if how else (1, False), program)

    def test_a_line_with_a_read_that_is_used(self):
        self.record(program("one_line"))
        race, = self.analyze(status=1)[0]["races"]
        self.assertFalse(race["unused_read"], race["why"])

    def test_suppress_unused(self):
        self.record(twin("shared_reduce.racy"))
        self.write("list", "race:shared_reduce.cu:*\nrace:other.cu:12\n")
        _, err = self.analyze(options=["--suppress", "list"])
        self.assertEqual(err.splitlines(), ["deadheat: suppression: race:shared_reduce.cu:* (list:1) matched 1 race",
                                            "deadheat: unused suppression: race:other.cu:12 (list:2)"])

    def test_library_suppressions(self):
        self.record(twin("cg_groups.fixed"))
        report, err = self.analyze()
        self.assertEqual(report["summary"]["races"], 0)
        self.assertRegex(err, r"\Adeadheat: suppression: function:.* \(.*/libraries\.suppressions:\d+\) matched \d+ races?\n")
        report, err = self.analyze(status=1, options=["--no-library-suppressions"])
        self.assertNotEqual(report["summary"]["races"], 0)
        self.assertNotIn("suppression", err)

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

    def test_print_suppressions(self):
        for name, status in [("shared_reduce", 1), ("stream_missing_wait", 1)]:
            trace = name + ".trace"
            self.record(twin(name + ".racy"), trace=trace)
            result, out, err = self.deadheat("analyze", "--print-suppressions", trace)
            self.assertEqual(result, status, err)
            entries = [line for line in out.decode().splitlines() if line.startswith(("# race ", "race:"))]
            self.assertEqual(len(entries) % 2, 0, entries)
            self.assertGreater(len(entries), 0)
            self.write("pasted", "\n".join(entries) + "\n")
            report, err = self.analyze(trace, options=["--suppress", "pasted"])
            self.assertTrue(all(race["suppressed"] for race in report["races"]))
            self.assertNotIn("unused", err)

    def test_print_limit(self):
        self.record(twin("global_lock.racy"))
        report, _ = self.analyze(status=1)
        count = len(report["races"])
        self.assertGreater(count, 1)
        for limit, shown in [("1", 1), ("0", count), ("1000", count)]:
            status, out, err = self.deadheat("analyze", "--print-limit", limit, "trace")
            self.assertEqual(status, 1, err)
            text = out.decode()
            self.assertEqual(sum(line.startswith("race ") for line in text.splitlines()), shown)
            self.assertEqual("more race" in text, shown < count)
            self.assertIn("========= RACECHECK SUMMARY: %d hazard" % shown, text)
            self.assertIn("========= ERROR SUMMARY: %d error" % count, text)

    def test_error_exitcode(self):
        self.record(twin("shared_reduce.racy"))
        for words in [["analyze", "trace"], ["replay", "trace"], ["check", "--", twin("shared_reduce.racy")]]:
            status, _, err = self.deadheat(words[0], "--error-exitcode", "42", *words[1:])
            self.assertEqual(status, 42, err)
            status, _, err = self.deadheat(words[0], "--error-exitcode", "0", *words[1:])
            self.assertEqual(status, 0, err)
        status, _, err = self.deadheat("check", "--error-exitcode", "42", "--", twin("shared_reduce.fixed"))
        self.assertEqual(status, 0, err)
        self.refused("analyze", "--error-exitcode", "256", "trace", says=["--error-exitcode 256", "no exit status"])

    def test_sarif(self):
        for name in ["shared_reduce.racy", "stream_missing_wait.racy", "order_float_sum.racy", "shared_reduce.fixed"]:
            status, _, err = self.deadheat("check", "--sarif", "log", "--json", "report", "--", twin(name))
            self.assertIn(status, [0, 1], err)
            log, report = self.json("log"), self.json("report")
            self.assertEqual(sarif_check.problems_of(log), [], name)
            self.assertEqual(len(log["runs"][0]["results"]), len(report["races"]) + len(report["order_dependent"]))
        self.record(program("faults"), "global_out", status=None)
        status, out, err = self.deadheat("analyze", "--sarif", "-", "trace")
        self.assertEqual(sarif_check.problems_of(json.loads(out)), [], err)
        self.refused("analyze", "--sarif", "-", "--json", "-", "trace", says=["JSON and SARIF"])

    def test_one_file_for_two_reports(self):
        self.record(twin("shared_reduce.racy"))
        self.write("there", "")
        os.symlink("there", self.path("link"))
        for one, other in ("new", "./new"), ("there", "there"), ("there", "link"), ("new", self.path("new")):
            for first, second in ("--json", "--sarif"), ("--json", "--log-file"), ("--sarif", "--log-file"):
                self.refused("analyze", first, one, second, other, "trace", says=[other, first, second])
                self.refused("check", second, one, first, other, "--", program("ends"), says=[first, second])
        self.assertEqual(self.deadheat("analyze", "--json", "/dev/null", "--sarif", "/dev/null", "trace")[0], 1)
        self.assertEqual(self.deadheat("analyze", "--json", "one", "--sarif", "other", "trace")[0], 1)

    def test_sarif_check_finds(self):
        """The validator is not content with anything."""
        self.record(twin("shared_reduce.racy"))
        log = json.loads(self.deadheat("analyze", "--sarif", "-", "trace")[1])
        self.assertEqual(sarif_check.problems_of(log), [])
        race = ["runs", 0, "results", 0]
        for path, value in [(["version"], "2.0"), (["extra"], 1), (race + ["level"], "fatal"), (race + ["ruleIndex"], 9),
                            (race + ["message"], {}), (race + ["occurrenceCount"], 0), (["runs"], {}),
                            (race + ["locations", 0, "physicalLocation", "region"], {"startLine": 0}),
                            (race + ["locations", 0, "physicalLocation", "artifactLocation"], {"uri": "a b"})]:
            changed = copy.deepcopy(log)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            self.assertNotEqual(sarif_check.problems_of(changed), [], path)
