"""Memory and synchronization errors that do not end the run (checks.cu): each is reported once, where it happens, and its
right twin says nothing. Races are not what these programs are about: they have none."""
import os

from cli_case import Case, marker_line, program


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
        self.assertEqual([entry["kind"] for entry in report["memory_errors"]], ["double-free"])
        self.assertIs(report["summary"]["complete"], False)
        self.right("heap")

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
