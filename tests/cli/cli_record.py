"""Recording: statuses, output, names of traces, what cannot be run."""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

from cli_case import Case, complaints, marker_line, program, settings, twin


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
            # What the host had been told of the kernel is there: it may be what it died of.
            self.assertEqual((report["summary"]["launches"], report["summary"]["accesses"]), (1, 64), number)
            self.assertEqual(len(complaints(err)), 1, err)
            self.assertIn("did not end cleanly", err)

    def test_leaves_while_there_is_work(self):
        """Kernels that are compiled when the process ends, by whichever thread: nothing is in the cache."""
        for how, launches in ("launched", 2), ("destructor", 2), ("thread", None):
            for pause in (0, 20, 60, 150) if how == "thread" else (0,):
                trace = "%s-%d" % (how, pause)
                result, out, err = self.run_words(
                    ["env", "DEADHEAT_CACHE=0", settings.deadheat, "record", "-o", trace, "--", program("leaves"), how,
                     str(pause)])
                self.assertEqual(result, 0, (trace, err))
                said_by_job = b"main ends\n" + b"destructor: cudaSuccess\n" * (how == "destructor")
                self.assertEqual((out, complaints(err)), (said_by_job, []), trace)
                if launches:
                    summary = self.analyze(trace)[0]["summary"]
                    self.assertEqual((summary["complete"], summary["launches"]), (True, launches), trace)

    # Signals are the program's while it runs; whoever waits for the search that follows can end it.
    def test_signal_behind_the_program(self):
        process = subprocess.Popen([settings.deadheat, "check", "--explore", "1000000", "--", program("ends")],
                                   cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"last 63\n")
        time.sleep(3)
        self.assertIsNone(process.poll())
        process.terminate()
        try:
            self.assertEqual(process.wait(20), -signal.SIGTERM)
        finally:
            process.kill()
            process.communicate()

    def test_nobody_reads_the_closing_line(self):
        for command, wanted in [(program("ends"), 7), (program("no_cuda"), 0)]:
            reader, writer = os.pipe()
            os.close(reader)
            process = subprocess.Popen([settings.deadheat, "record", "--", command, "7"], cwd=self.directory,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer,
                                       restore_signals=True)
            os.close(writer)
            self.assertEqual(process.wait(60), wanted)

    def test_capability(self):
        """The embedded device is a GPU of the capability that was asked for, and runs the code for it."""
        for capability, says, shared, code in [
                (None, "9.0: 132 multiprocessors, %d bytes, 32 blocks, 1 1", 232448, "800, as a cluster cudaSuccess"),
                ("7.5", "7.5: 40 multiprocessors, %d bytes, 16 blocks, 0 0", 65536,
                 "750, as a cluster cudaErrorInvalidClusterSize"),
                ("8.0", "8.0: 108 multiprocessors, %d bytes, 32 blocks, 0 0", 166912,
                 "800, as a cluster cudaErrorInvalidClusterSize"),
                ("12.0", "12.0: 170 multiprocessors, %d bytes, 24 blocks, 1 1", 101376,
                 "1200, as a cluster cudaSuccess")]:
            options = ["--capability", capability] if capability else []
            out, err = self.record(program("capability"), trace="trace-%s" % capability, options=options)
            full = "1 block: cudaSuccess, %d" % shared
            self.assertEqual(out.decode().splitlines(), [says % shared, full, "code for " + code])
            self.assertEqual(complaints(err), [])
        self.refused("record", "--capability", "9.9", "--", program("capability"), says=["9.9", "8.0, 8.6", "or 12.0"])

    def test_capability_of_its_code(self):
        """Whose PTX is for newer GPUs only is told how it runs, and replays as the device that it ran on."""
        _, err = self.record(program("capability_120"), status=1)
        said = [line for line in complaints(err) if "no PTX" in line]
        self.assertEqual(len(said), 1, err)
        self.assertIn("(it holds PTX for sm_120, machine code for sm_80): record it with --capability 12.0", said[0])
        self.record(program("capability_120"), trace="newer", options=["--capability", "12.0"])
        status, out, err = self.deadheat("replay", "newer", "--json", "-", "-o", "witnesses")
        self.assertEqual(status, 1, err)
        races = json.loads(out)["races"]
        self.assertEqual({race["verdict"] for race in races}, {"harmful"}, races)
        example = races[0]["differences"][0]["example"]
        # One after the other, in either order; or one did not see the other.
        self.assertLessEqual({example["a"], example["b"]}, {170 * 4, 170 * 5, 170, 170 * 2}, races[0])
        status, out, err = self.deadheat("replay", "--witness", races[0]["witness"])
        self.assertEqual(status, 1, err)
        self.assertIn(b"the same bits", out)

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

    def test_address_sanitizer(self):
        """It wants to be the first of a program's libraries, and says so; the user's own options stay."""
        os.environ["ASAN_OPTIONS"] = "exitcode=9"
        try:
            status, out, err = self.deadheat("record", "-o", "trace", "--", program("no_cuda_asan"))
        finally:
            del os.environ["ASAN_OPTIONS"]
        plain = self.deadheat("record", "-o", "trace", "--", program("no_cuda"))
        self.assertEqual((status, out), plain[:2], err)

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

    def test_closed_standard_files(self):
        """What the program prints where it has closed the file goes nowhere, and not into the trace."""
        for number, out in [(0, b"last 63\n"), (1, b""), (2, b"last 63\n")]:
            script = "exec %d>&-; %s; echo words >&2" % (number, program("ends"))
            trace = "trace%d" % number
            self.assertEqual(self.record("sh", "-c", script, trace=trace, status=None)[0], out)
            report, err = self.analyze(trace)
            self.assertIs(report["summary"]["complete"], True)
            self.assertEqual(complaints(err), [])

    def test_file_size_limit(self):
        """The program may write no long files: what is recorded is the same, or too little and said so."""
        os.environ["DEADHEAT_CACHE"] = self.path("cache")
        os.mkdir(self.path("cache"))
        try:
            for limit, complete in [(64, True), (0, False)]:  # of 512 bytes
                trace = "trace%d" % limit
                status, out, err = self.run_words(["sh", "-c", "ulimit -f %d; exec \"$@\"" % limit, "sh", settings.deadheat,
                                                   "record", "-o", trace, "--", program("ends"), "7"])
                self.assertEqual((status, out), (7, b"last 63\n"), err)
                self.assertEqual(any("File too large" in line for line in complaints(err)), not complete, err)
                if complete:
                    self.assertIs(self.analyze(trace)[0]["summary"]["complete"], True)
        finally:
            del os.environ["DEADHEAT_CACHE"]

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

    def test_info_demangles(self):
        self.record(twin("shared_reduce.racy"))
        for options in [[], ["--records"]]:
            status, out, err = self.deadheat("info", *options, "trace")
            self.assertEqual(status, 0, err)
            self.assertIn("reduce(int const*, int*)", out.decode())
            self.assertNotIn("_Z6reduce", out.decode())

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
        """Whoever carries the runtime in himself is recorded as who links it."""
        reports = []
        for command in [twin("shared_reduce.racy"), program("reduce_static")]:
            status, out, err = self.deadheat("check", "--json", "report", "--", command)
            self.assertEqual((status, complaints(err)), (1, []), err)
            report = self.json("report")
            races = [(r["kind"], r["level"], r["verdict"], r["first"]["line"], r["second"]["line"], r["occurrences"])
                     for r in report["races"]]
            reports.append((out, report["summary"], races))
        self.assertTrue(reports[0][2])
        self.assertEqual(reports[0], reports[1])

    def test_static_runtime_of_a_library(self):
        """One that the program is linked with, one that it loads and loads again, and one that Python does."""
        library, other = program("library_static.so"), program("library_shared.so")
        python = "import ctypes\nctypes.CDLL('%s').reversed_numbers()" % library
        for command, launches in [([program("linked_early")], 1), ([program("linked_late"), library, other, library], 3),
                                  ([sys.executable, "-c", python], 1)]:
            status, out, err = self.deadheat("check", "--json", "report", "--", *command)
            self.assertEqual((status, out, complaints(err)), (1, b"sum 2016\n" * launches, []), (command, err))
            report = self.json("report")
            self.assertEqual((report["summary"]["launches"], report["summary"]["complete"]), (launches, True))
            self.assertEqual([(r["kind"], r["level"]) for r in report["races"]], [("read-write", "global")])

    def test_static_runtime_without_symbols(self):
        stripped = {}
        for name in ["reduce_static", "library_static.so"]:
            stripped[name] = self.path(name)
            subprocess.run(["strip", "-s", "-o", stripped[name], program(name)], check=True)
        for name in ["record", "check"]:
            self.refused(name, "--", stripped["reduce_static"],
                         says=["reduce_static", "statically", "symbols", "NVCC_APPEND_FLAGS='-cudart shared'"])
        status, _, err = self.deadheat("check", "--", program("linked_late"), stripped["library_static.so"])
        self.assertEqual((status, len([line for line in complaints(err) if "statically" in line])), (2, 1), err)

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

    def test_driver_by_name(self):
        """Found without being linked with, by a program that says for which versions it was built."""
        status, out, err = self.deadheat("check", "--json", "report", "--", program("driver_by_name"), "nothing")
        self.assertEqual((status, out, complaints(err)), (0, b"last 31\n", []), err)
        self.assertEqual(self.json("report")["summary"]["launches"], 1)

    def test_driver_refuses(self):
        """What the program did not get done is no clean bill."""
        for word, answer, says in [("waits", "801", "cuStreamWaitValue32_v2 is not supported"), ("machine", "209", "machine code")]:
            status, out, err = self.deadheat("check", "--json", "report", "--", program("driver_by_name"), word)
            self.assertEqual((status, out), (2, ("%s %s\nlast 31\n" % (word, answer)).encode()), err)
            self.assertEqual(sum(says in line for line in complaints(err)), 1, err)
            self.assertIs(self.json("report")["summary"]["complete"], False)

    def test_refused_kernels(self):
        out, err = self.record(program("refused"), "all")
        self.assertEqual(out, b"reduce 801\neverywhere 801\nlast 32\n")
        lines = complaints(err)
        self.assertEqual(len(lines), 2, err)
        for kernel, instruction in [("reduce(unsigned long long, float*)", "sured.b"),
                                    ("everywhere(float*)", "multimem.ld_reduce")]:
            self.assertEqual(sum(kernel in line and instruction in line for line in lines), 1, err)
        report, _ = self.analyze()
        summary = report["summary"]
        self.assertEqual((summary["launches"], summary["instrumented"], summary["complete"]), (1, 1, False))
        self.assertEqual(len(report["warnings"]), 2)

    def test_refused_kernels_are_no_error_of_the_program(self):
        self.record(program("refused"), "all", "unasked")
        self.assertEqual(self.analyze()[0]["memory_errors"], [])

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
        self.assertEqual(status, 2, err)  # what the device would have run behind the fault is not checked
        self.assertEqual(out.decode(), "launch 0\nsync %d\nmalloc %d\nthe host goes on\n" % (error, error))
        lines = complaints(err)
        self.assertEqual(len(lines), 1, err)
        number = marker_line("faults.cu", which.split("_")[0] if which == "assert" else which)
        for part in [kernel, "faults.cu:%d" % number, "thread (%d,0,0)" % thread, text]:
            self.assertIn(part, lines[0])
        report = self.json("report")
        self.assertEqual(report["program_status"], 0)
        self.assertIs(report["summary"]["complete"], False)
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
