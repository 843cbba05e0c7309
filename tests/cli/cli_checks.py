"""Memory and synchronization errors that do not end the run (checks.cu): each is reported once, where it happens, and its
right twin says nothing. Races are not what these programs are about: they have none."""
import os
import subprocess
import threading

from cli_case import Case, marker_line, program, settings


class Checks(Case):
    def checked(self, *words, status=0, options=()):
        """The report of `check` on checks.cu."""
        result, out, err = self.deadheat("check", "--json", "report", *options, "--", program("checks"), *words)
        self.assertEqual(result, status, err)
        report = self.json("report")
        self.assertEqual(report["races"], [])
        return report, err

    def right(self, which, options=()):
        report, err = self.checked(which, "right", options=options)
        self.assertEqual((report["memory_errors"], report["sync_errors"]), ([], []))
        self.assertIs(report["summary"]["complete"], True)

    def one(self, which, kind, marker=None, text="", bytes=None, kernel=None, options=()):
        """The one memory error of the faulty twin; the right one has none."""
        report, err = self.checked(which, options=options)
        self.assertEqual([entry["kind"] for entry in report["memory_errors"]], [kind])
        entry = report["memory_errors"][0]
        self.assertIs(report["summary"]["complete"], True)
        self.assertIn("memory error: " + kind, err)
        self.assertIn(text, entry["text"])
        self.assertIn(text, " ".join(err.split()))
        if bytes is not None:
            self.assertEqual(entry["bytes"], bytes)
        if marker:
            self.assertEqual(os.path.basename(entry["file"] or "none"), "checks.cu")
            self.assertEqual(entry["line"], marker_line("checks.cu", marker))
        if kernel:
            self.assertIn(kernel, entry["kernel"])
        self.right(which, options)
        return entry

    def test_unwritten_global(self):
        entry = self.one("unwritten", "uninitialized", "unwritten", "nobody wrote", 4, "sum(")
        self.assertEqual((entry["nearest"]["offset"], entry["nearest"]["size"]), (0, 256))

    def test_unwritten_in_part(self):
        self.one("partly", "uninitialized", "partly", "nobody wrote", 4, "widen(")

    def test_unwritten_shared(self):
        entry = self.one("tile", "uninitialized", "tile", "no thread of the block wrote", 4, "tile(")
        self.assertEqual(entry["thread"], [58, 0, 0])

    def test_unwritten_download(self):
        self.one("download", "uninitialized", text="cudaMemcpy gives the host bytes that nobody wrote", bytes=256)

    def test_unwritten_reused(self):
        self.one("reused", "uninitialized", "unwritten", "nobody wrote", 4, "sum(")

    def test_unwritten_padding(self):
        self.right("padding")

    def test_unwritten_address(self):
        self.one("scatter", "uninitialized", "scatter", "uses it as an address", 4, "scatter(")

    def test_unwritten_branch(self):
        self.one("choose", "uninitialized", "choose", "decides by it", 4, "choose(")

    def test_unwritten_through_shuffles(self):
        self.one("shuffle", "uninitialized", "shuffle", "cudaMemcpy gives the host what is computed from it", 4)

    def test_unwritten_through_warps(self):
        self.one("vote", "uninitialized", "vote", "decides by it", 4)
        self.one("match_all", "uninitialized", "match_all", "decides by it", 4)
        for name in ("ballot", "match", "reduce", "reduce_or"):
            self.one(name, "uninitialized", name, "cudaMemcpy gives the host what is computed from it", 4)

    def test_unwritten_through_barriers(self):
        self.one("barrier_or", "uninitialized", "barrier_or", "decides by it", 4)
        self.one("barrier_count", "uninitialized", "barrier_count",
                 "cudaMemcpy gives the host what is computed from it", 4)

    def test_unwritten_through_calls(self):
        self.one("call_pair", "uninitialized", "call_pair", "decides by it", 4)
        for name in ("call", "call_pointer"):
            self.one(name, "uninitialized", name, "cudaMemcpy gives the host what is computed from it", 4)

    def test_unwritten_through_local_memory(self):
        self.one("keep", "uninitialized", "keep", "nobody wrote since it was allocated", 4)
        self.one("local", "uninitialized", "local", "reads local memory that the thread did not write", 4)

    def test_unwritten_through_matrices(self):
        self.one("matrix", "uninitialized", "matrix", "no thread of the block wrote", 16)
        self.one("matrix_moved", "uninitialized", "matrix_moved", "no thread of the block wrote", 2)

    def test_unwritten_in_clusters(self):
        for name in ("remote", "read_remote"):
            self.one(name, "uninitialized", name, "no thread of the block wrote", 4)

    def test_unwritten_through_shared(self):
        entry = self.one("pass_on", "uninitialized", "pass_on", "nobody wrote since it was allocated", 4)
        self.assertEqual(entry["nearest"]["size"], 256)

    def test_unwritten_to_pinned(self):
        self.one("pinned", "uninitialized", "partly", "stores what it computes from it where the host can see it", 4)

    def test_unwritten_and_unused(self):
        report, err = self.checked("careful")
        self.assertEqual(report["memory_errors"], [])

    def sync(self, which, text, status=0):
        report, err = self.checked(which, status=status)
        self.assertEqual(len(report["sync_errors"]), 1, report["sync_errors"])
        entry = report["sync_errors"][0]
        self.assertIn(text, entry["text"])
        self.assertIn(text, " ".join(err.split()))
        self.assertEqual(entry["line"], marker_line("checks.cu", which))
        self.assertIs(report["summary"]["complete"], status == 0)
        self.right(which)

    def test_barrier_count(self):
        self.sync("counted", "a barrier's thread count is 48, no multiple of the warp size")

    def test_barrier_counts_differ(self):
        self.sync("counts", "different thread counts")

    def test_barrier_part_of_a_warp(self):
        self.sync("part", "only some lanes of a warp are at an aligned barrier, in divergent code")

    def test_barrier_number(self):
        self.sync("numbered", "barrier 17: there are barriers 0 to 15")

    def test_barrier_of_an_unrolled_loop(self):
        """One line is one entry, however many instructions it is."""
        self.sync("unrolled", "barrier 17: there are barriers 0 to 15; likewise 7 more")
        self.assertEqual(self.checked("unrolled")[0]["sync_errors"][0]["occurrences"], 8)

    def test_barrier_deadlock(self):
        self.sync("left_alone", "barrier 1 of block 0 has 32 of 64 threads; 32 of the block have exited", status=2)

    def test_weak_wait(self):
        runtime = os.path.join(os.path.dirname(os.path.dirname(settings.deadheat)), "lib", "libcudart.so.13")
        environment = dict(os.environ, LD_PRELOAD=runtime, DEADHEAT_OPTIONS="patience=100")
        process = subprocess.Popen([program("checks"), "weak_wait"], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        killer = threading.Timer(60, process.kill)
        killer.start()
        line = process.stderr.readline().decode()
        process.kill()
        process.communicate()
        killer.cancel()
        self.assertIn("kernel weak_wait(int*): a thread has run for 1 s and let no other go on", line)

    def test_errors_count_when_asked(self):
        self.checked("unwritten", status=1, options=["--count-errors"])
        self.checked("unwritten", "right", options=["--count-errors"])

    def test_frees(self):
        report, err = self.checked("free")
        self.assertEqual([(entry["kind"], entry["text"].split(" (")[0]) for entry in report["memory_errors"]],
                         [("invalid-free", "cudaFree of an address inside an allocation"),
                          ("double-free", "cudaFree of memory that was freed before")])
        self.assertEqual([entry["nearest"]["offset"] for entry in report["memory_errors"]], [4, 0])
        report, err = self.checked("free", "right")
        self.assertEqual([entry["kind"] for entry in report["memory_errors"]], ["invalid-free"])

    def test_free_in_kernel(self):
        report, err = self.checked("heap", status=2)  # a fault: the rest of the run is not seen
        self.assertEqual([(entry["kind"], entry["line"]) for entry in report["memory_errors"]],
                         [("double-free", marker_line("checks.cu", "heap"))])
        self.assertIs(report["summary"]["complete"], False)
        self.right("heap")

    def test_use_after_free_in_kernel(self):
        report, err = self.checked("heap_late", status=2)
        self.assertEqual([(entry["kind"], entry["line"]) for entry in report["memory_errors"]],
                         [("use-after-free", marker_line("checks.cu", "heap_late"))])
        self.right("heap_late")

    def test_unwritten_heap(self):
        self.one("heap_unwritten", "uninitialized", "heap_unwritten", "decides by it", 4, "heap_unwritten(")

    def test_leaks_in_kernels(self):
        self.one("heap_leak", "leak", "heap_leak",
                 "never freed: allocated by malloc in a kernel (32 times, 2048 bytes in all)", 64, "heap_leak(",
                 ["--leak-check"])

    def test_unchecked_launch(self):
        self.one("launch", "api-error", text="nothing asked for the error")

    def test_leaks(self):
        report, err = self.checked("leak")
        self.assertEqual(report["memory_errors"], [])
        entry = self.one("leak", "leak", text="never freed: allocated by cudaMalloc", bytes=256,
                         options=["--leak-check"])
        self.assertEqual(entry["nearest"]["size"], 256)

    def test_deadlock(self):
        report, err = self.checked("deadlock", status=2)
        self.assertEqual(len(report["sync_errors"]), 1)
        entry = report["sync_errors"][0]
        self.assertIn("deadlock: launch 1", entry["text"])
        self.assertIn("1 thread waiting for a value", entry["text"])
        self.assertEqual(entry["line"], marker_line("checks.cu", "deadlock"))
        self.assertIs(report["summary"]["complete"], False)
        self.right("deadlock")

    def test_race_ahead_of_a_deadlock(self):
        """What is read would be stored behind the wait; and outputs that are not there agree in every schedule, which says
        nothing. Of what the host got before the hang it does."""
        result, out, err = self.deadheat("check", "--json", "report", "--", program("checks"), "race_and_wait")
        self.assertEqual(result, 1, err)
        report = self.json("report")
        self.assertEqual(len(report["races"]), 1)
        race = report["races"][0]
        self.assertFalse(race["unused_read"], race["why"])
        self.assertEqual(race["verdict"], "unreached")
        self.assertIn("the run hangs in any case", race["verdict_why"])
        self.assertIn("the host gets nothing that comes after the two", race["verdict_why"])
        self.assertNotIn("other outputs than the recording", err)
        result, out, err = self.deadheat("check", "--json", "report", "--", program("checks"), "race_read_and_wait")
        self.assertEqual(result, 1, err)
        self.assertEqual([race["verdict"] for race in self.json("report")["races"]], ["benign"])
