#!/usr/bin/env python3
"""What the preload library does in a process, over stand-ins for the driver and CUPTI (fake_cuda.cpp, fake_cupti.cpp).

    tracer_test.py --deadheat bin/deadheat --tracer libdeadheat.so --folder DIR [CASE…]

    [--embedded DIR]   where libcuda.so.1 is the embedded device (embedded_cuda.cpp), window_job and device_job

DIR holds job, libcuda.so.1 and libcupti.so.13. Prints PASS, FAIL or SKIP a case and `N passed, N failed`.
"""
import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--folder", required=True)
arguments.add_argument("--embedded")
arguments.add_argument("cases", nargs="*")
options = arguments.parse_args()
job = os.path.join(os.path.abspath(options.folder), "job")


class Case:
    def __init__(self):
        self.work = tempfile.mkdtemp()
        self.trace = os.path.join(self.work, "trace")

    def run(self, *words, settings="", output=None, environment=None, limit=None,
            tracer=os.path.abspath(options.tracer)):
        """The job's status, output and what was said, under the library."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        text = "output=%s:device=gpu:cupti=%s%s" % (output or self.trace, cupti, settings)
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder), DEADHEAT_OPTIONS=text,
                         LD_PRELOAD=tracer, **(environment or {}))
        # AddressSanitizer must come first; the tracer is not built with it for this test.
        before = None
        if limit:
            def before():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        done = subprocess.run([job, *map(str, words)], env=variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, preexec_fn=before)
        said = done.stderr.splitlines()
        assert done.stdout.splitlines()[-1:] == ["done"], (done.returncode, done.stdout)
        self.printed = done.stdout
        return done.returncode, said

    def torch(self, what, how="new"):
        """What torch_job said, the reports that PyTorch's profiler got, and the races."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder),
                         LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:cupti=%s" % (self.trace, cupti))
        shutil.rmtree(self.trace, ignore_errors=True)
        done = subprocess.run([os.path.join(os.path.abspath(options.folder), "torch_job"), what, how], env=variables,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        analysis = subprocess.run([options.deadheat, "analyze", self.trace, "--json", "-"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        races = json.loads(analysis.stdout)["races"]
        assert all(race["certainty"] == "possible" and race["level"] == "stream" for race in races), races
        return done.stderr.splitlines(), int(done.stdout.split()[0]), len(races)

    def window(self, fault, settings, ranged=1):
        """What window_job said, and its sum, recorded over the embedded device."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:kernel=^(fill|scale)$:cupti=%s%s" % (
                             self.trace, cupti, settings))
        done = subprocess.run([os.path.join(os.path.abspath(options.embedded), "window_job"), str(ranged), str(fault)],
                              env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if ranged == 3:
            assert done.returncode == -signal.SIGKILL, done.returncode
            return done.stderr.splitlines(), 0
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done.stderr.splitlines(), int(done.stdout.split()[0])

    def host(self, what, fault, ranged=0, replays=True):
        """What host_job said, recorded with a window, and the report of its replay."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        settings = ":window=1" + (":capture-range=cudaProfilerApi" if ranged else "")
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s%s" % (self.trace, cupti, settings))
        shutil.rmtree(self.trace, ignore_errors=True)
        job = [os.path.join(os.path.abspath(options.embedded), "host_job"), what, str(fault), str(ranged)]
        done = subprocess.run(job, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done.stderr.splitlines(), self.replay() if replays else None

    def device(self, what, settings="", timeout=60, variables=()):
        """What device_job said, and its status; a job that hangs is ended."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s%s" % (self.trace, cupti, settings),
                         **dict(variables))
        done = subprocess.run([os.path.join(os.path.abspath(options.embedded), "device_job"), what], env=variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        assert done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        return done

    def python(self, how):
        """Where the launches of python_job.py were made, as the trace says, and the lines that it says."""
        cupti = os.path.join(os.path.abspath(options.folder), "libcupti.so.13")
        folders = os.path.abspath(options.embedded) + ":" + os.path.abspath(options.folder)
        variables = dict(os.environ, LD_LIBRARY_PATH=folders, LD_PRELOAD=os.path.abspath(options.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=64:cupti=%s" % (self.trace, cupti))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_job.py")
        done = subprocess.run([sys.executable, script, how], env=variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout, done.stderr)
        assert done.stderr == "", done.stderr
        records = subprocess.run([options.deadheat, "info", "--records", self.trace], text=True, stdout=subprocess.PIPE).stdout
        launches = [record for record in records.splitlines() if " kernel fill " in record]
        return ([re.search(r"called_at (.*)$", launch) for launch in launches],
                ["%s:%s" % (script, line) for line in done.stdout.split()[:2]])

    def replay(self, *words):
        """Status and report of `deadheat replay`."""
        done = subprocess.run([options.deadheat, "replay", *(words or [self.trace]), "--json", "-", "--witness-dir",
                               self.work + "/witnesses"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=100)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def dump(self, trace=None):
        """What the trace says, by the lines of `info`."""
        done = subprocess.run([options.deadheat, "info", trace or self.trace], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def launches(self, trace=None):
        match = re.search(r"(\d+)\s+launch|launches[:\s]+(\d+)", self.dump(trace))
        assert match, self.dump(trace)
        return int(match.group(1) or match.group(2))


def over_embedded(test):
    """Marks a case that needs --embedded."""
    test.over_embedded = True
    return test


def whole(case):
    """Everything is recorded; failed launches are not."""
    status, said = case.run(1000, 1, "return")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() == 900, case.dump()


def by_another_name(case):
    """Builds are told apart by their names; another library may come before it."""
    copy = os.path.join(case.work, "build-1.so")
    shutil.copy(options.tracer, copy)
    for preloaded in (copy, "libm.so.6 " + copy):
        trace = os.path.join(case.work, "trace-%d" % len(preloaded))
        status, said = case.run(100, 1, "return", output=trace, tracer=preloaded)
        assert status == 3, (status, said)
        assert case.launches(trace) == 90, (preloaded, case.dump(trace))


def cost_of_two_builds(case):
    """The comparison of two builds (tests/gpu/cost.py) fails where one of them records nothing."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu", "cost.py")
    other, deaf = os.path.join(case.work, "other.so"), os.path.join(case.work, "deaf.so")
    for against, ends in ((other, 0), (deaf, 1)):
        shutil.copy(options.tracer, against)
        words = ["--deadheat", options.deadheat, "--tracer", options.tracer, "--against", against, "--work", case.work,
                 "--batches", "1", "--rounds", "3", "--job", job, "20", "10", "turns"]
        if against == deaf:  # as a library whose name nobody knew did
            with open(deaf, "r+b") as file:
                bytes_of_it = file.read().replace(b"CUDA_INJECTION64_PATH", b"CUDA_INJECTION99_PATH")
                file.seek(0)
                file.write(bytes_of_it)
        done = subprocess.run([sys.executable, script, *words], text=True, capture_output=True, timeout=60,
                              env=dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder)))
        assert done.returncode == ends, done.stdout + done.stderr
        assert ("FAIL %s has 0.0" % deaf in done.stdout) == bool(ends), done.stdout


def threads(case):
    status, said = case.run(2000, 8, "return")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() == 8 * 1800, case.dump()


def leaves_at_once(case):
    """_exit runs no exit handlers."""
    status, said = case.run(1000, 1, "_exit")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() == 900
    assert not [f for f in os.listdir(case.trace) if f.endswith("incomplete")], os.listdir(case.trace)


def killed(case):
    """A killed job leaves a trace that reads up to its last whole chunk."""
    status, said = case.run(1000, 1, "kill")
    assert (status, said) == (-signal.SIGKILL, []), (status, said)
    assert [f for f in os.listdir(case.trace) if f.endswith("incomplete")], os.listdir(case.trace)
    assert case.launches() == 900, case.dump()


def forks(case):
    """A forked child is not recorded, and does not end its parent's trace."""
    status, said = case.run(1000, 1, "fork")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() == 1800, case.dump()


def forks_while_others_launch(case):
    """Children call the driver and leave, whatever locks other threads held at the fork."""
    status, said = case.run(10, 1, "forks")
    assert (status, said) == (3, []), (status, said)
    assert "hangs" not in case.printed, case.printed


def crashes(case):
    """The handler of a signal that comes while a launch is being written down ends the process."""
    status, said = case.run(100, 1, "crash")
    assert (status, said) == (3, []), (status, said)


def waits_for_a_signal(case):
    """A signal that the program blocks in all its threads is not delivered to one of the library's."""
    status, said = case.run(100, 1, "sigwait")
    assert (status, said) == (3, []), (status, said)
    assert "did not come" not in case.printed, case.printed


def short_threads(case):
    """What the library keeps for a thread is the next one's when it has ended: 17 KB each, and names of ranges."""
    status, said = case.run(100, 1, "short")
    assert (status, said) == (3, []), (status, said)
    assert int(case.printed.split(" KiB")[0].split()[-1]) < 8000, case.printed


def allocates_nothing(case):
    status, said = case.run(100, 1, "empty")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() == 90, case.dump()


def blocks_of_torch(case):
    """An opaque kernel that was given a block of PyTorch's allocator reaches that block, in the order of the host's calls."""
    assert case.torch("apart") == ([], 2, 0)
    assert case.torch("reuse") == ([], 4, 1)
    assert case.torch("dangling") == ([], 3, 0)
    assert case.torch("structure") == ([], 4, 1)


def lists_of_blocks(case):
    """An opaque kernel reaches each block whose address is in its parameters, of any size, and no other."""
    for what, races in (("lists", 0), ("lists-first", 1), ("lists-last", 1)):
        assert case.torch(what) == ([], 1002, races), what


def blocks_that_are_not_told(case):
    """An allocator that reports in another way is not followed, and gets its reports."""
    assert case.torch("apart", "old") == ([], 2, 1)
    assert case.torch("reuse", "old") == ([], 4, 1)


def blocks_that_make_no_sense(case):
    said, reports, races = case.torch("nonsense")
    assert len(said) == 1 and "makes no sense" in said[0], said
    assert (reports, races) == (3, 1), (reports, races)
    assert "makes no sense" in case.dump(), case.dump()


def executes(case):
    """A program in the process's place gets a log of its own."""
    status, said = case.run(1000, 1, "exec")
    assert (status, said) == (3, []), (status, said)
    logs = [f for f in os.listdir(case.trace) if ".log" in f]
    assert len(logs) == 2, logs


def ranks(case):
    status, said = case.run(100, 1, "return", output=case.trace + "-%q{RANK}", environment={"RANK": "5"})
    assert (status, said) == (3, []), (status, said)
    assert case.launches(case.trace + "-5") == 90
    status, said = case.run(100, 1, "return", output=case.trace + "-%q{NO_SUCH_RANK}")
    assert status == 3 and len(said) == 1 and "NO_SUCH_RANK" in said[0], said


def idle(case):
    """A process that submits nothing leaves a log only where the trace is its own."""
    status, said = case.run(0, 1, "return", output=case.trace + "-%p")
    assert (status, said) == (3, []), (status, said)
    assert not [name for name in os.listdir(case.work) if name.startswith("trace-")], os.listdir(case.work)
    status, said = case.run(0, 1, "return")
    assert (status, said, case.launches()) == (3, [], 0), (status, said)
    shutil.rmtree(case.trace)
    if options.embedded:  # a module leaves a file beside the log
        done = case.device("idle")
        assert (done.returncode, done.stderr, case.launches()) == (0, "", 0), done
        shutil.rmtree(case.trace)
    case.run(100, 1, "return")
    case.run(0, 1, "return")
    assert len(os.listdir(case.trace)) == 1 and case.launches() == 90, os.listdir(case.trace)


def ranges(case):
    """Launches know the NVTX ranges that they were made in."""
    case.run(1000, 1, "return")
    done = subprocess.run([options.deadheat, "info", case.trace, "--records"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)
    text = done.stdout
    assert text.count("step 3") == 90, text[:2000]


def timestamps(case):
    """Device times of launches, and none that may belong to something else (fake_cupti.cpp tells wrong ones)."""
    status, said = case.run(1000, 1, "return", settings=":timestamps=1")
    assert (status, said) == (3, []), (status, said)
    summary = case.dump()
    # 900 launches; of every hundred, ten are told of as copies and one by another name.
    assert re.search(r"^times +801 operations, 0\.40[01] ms on the device$", summary, re.M), summary
    assert re.search(r"900 x work\(int\), 0\.40[01] ms on the device", summary), summary
    shutil.rmtree(case.trace)
    case.run(100, 1, "return")
    assert "times" not in case.dump(), case.dump()


@over_embedded
def times_of_races(case):
    """A report tells when an operation of a race ran, where the trace knows; and nothing where it does not."""
    for settings in (":timestamps=1", ""):
        case.window(1, settings)
        done = subprocess.run([options.deadheat, "analyze", case.trace, "--json", "-"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        sides = [race[side] for race in json.loads(done.stdout)["races"] for side in ("first", "second")]
        times = {side["kernel"]: side.get("device_time") for side in sides}
        assert {"scale", "cuMemcpyHtoDAsync"} <= set(times), times
        # fake_cupti.cpp tells of kernels, and that each takes 500 ns.
        assert times["cuMemcpyHtoDAsync"] is None, times
        assert bool(times["scale"]) == bool(settings), times
        assert not settings or times["scale"]["end"] - times["scale"]["begin"] == 500, times
        shutil.rmtree(case.trace)


def layers(case):
    """Where parts of the library are left out to see what it costs, the trace says that it has gaps."""
    for uppermost, launches in ((0, 0), (1, 0), (2, 0), (3, 0), (5, 0), (6, 0), (7, 900)):
        status, said = case.run(1000, 1, "return", environment={"DEADHEAT_LAYERS": str(uppermost)})
        assert (status, said) == (3, []), (status, said)
        assert ("DEADHEAT_LAYERS" in case.dump()) == (uppermost < 7), case.dump()
        if launches:
            assert case.launches() == launches, case.dump()
        else:
            assert "work(int)" not in case.dump(), case.dump()
        shutil.rmtree(case.trace)


def detaches(case):
    """CUPTI is taken out of the process for a while, and comes back."""
    status, said = case.run(1000, 1, "detach")
    assert (status, said) == (3, ["CUPTI is detached"]), (status, said)
    assert case.launches() == 1800 and "DEADHEAT_LAYERS" in case.dump(), case.dump()


def watches_what_it_needs(case):
    """Each callback costs time: where only operations are recorded, calls that tell of accesses are not watched."""
    watched = {}
    for settings in ("", ":accesses=0"):
        calls = os.path.join(case.work, "calls" + settings)
        status, said = case.run(1000, 1, "return", settings=settings, environment={"FAKE_CUPTI_CALLS": calls})
        assert (status, said, case.launches()) == (3, [], 900), (status, said)
        with open(calls) as numbers:
            watched[settings] = {int(number) for number in numbers}
        shutil.rmtree(case.trace)
    launch, tensor_map, attributes = 307, 697, 85 # CUPTI_DRIVER_TRACE_CBID_
    assert {launch, tensor_map, attributes} <= watched[""], watched
    assert launch in watched[":accesses=0"] < watched[""] and not {tensor_map, attributes} & watched[":accesses=0"], watched


def no_cupti(case):
    status, said = case.run(100, 1, "return", settings=":cupti=/no/such/libcupti.so")
    assert status == 3 and len(said) == 1 and "libcupti" in said[0], said
    assert not os.path.exists(case.trace)


def busy(case):
    """Another tool uses CUPTI: one line, and a trace that says so."""
    status, said = case.run(100, 1, "return", environment={"FAKE_CUPTI_BUSY": "1"})
    assert status == 3 and len(said) == 1 and "another tool" in said[0], said
    assert "another tool" in case.dump(), case.dump()


def unwritable(case):
    status, said = case.run(100, 1, "return", output="/proc/no/trace")
    assert status == 3 and len(said) == 1 and "/proc/no" in said[0], said


def full_disk(case):
    """No room: one line, the job goes on, and what was written reads."""
    status, said = case.run(200000, 2, "return", limit=300_000)
    assert status == 3 and len(said) == 1 and "recording stopped" in said[0], said
    assert 0 < case.launches() < 360000, case.dump()


def bad_options(case):
    for settings, word in ((":no-such=1", "no-such"), (":capture-range=sometimes", "sometimes")):
        status, said = case.run(100, 1, "return", settings=settings)
        assert status == 3 and len(said) == 1 and word in said[0], said


@over_embedded
def windows(case, settings=":window=1:capture-range=cudaProfilerApi", ranged=1):
    """A window is executed again without the device it was recorded on: memory, copies, pointers, opaque kernels."""
    said, _ = case.window(1, settings, ranged)
    assert said == [], said
    status, report = case.replay()
    certain = [race for race in report["races"] if race["certainty"] == "certain"]
    assert len(certain) == 1 and status == 1, report
    race = certain[0]
    assert (race["first"]["kernel"], race["second"]["kernel"]) == ("scale", "cuMemcpyHtoDAsync"), race
    assert race["verdict"] == "harmful", race
    # The two orders: three times what was there, or three times what came; the first word of the block.
    example = race["differences"][0]["example"]
    assert {example["a"], example["b"]} == {300, 150000}, race["differences"]
    status, again = case.replay("--witness", race["witness"])
    assert status == 1 and again["witness"]["as_recorded"], again
    records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
    # What blur changed, and nothing else: 16 KiB, 64 KiB behind what it read.
    effects = [line for line in records.splitlines() if line.startswith("effects")]
    assert len(effects) == 1 and effects[0].count(" address ") == 1 and "bytes 16384" in effects[0], effects


@over_embedded
def window_of_the_whole_run(case):
    windows(case, ":window=1", 0)


@over_embedded
def window_without_fault(case):
    """Nothing is reported; and memory that no operation touched is not written."""
    said, total = case.window(0, ":window=1:capture-range=cudaProfilerApi")
    assert said == [], said
    summary = case.dump()
    assert re.search(r"windows +1, ", summary), summary
    status, report = case.replay()
    assert status == 0 and not report["races"], report
    shutil.rmtree(case.trace)
    assert case.window(0, "")[1] == total


@over_embedded
def window_reaches_the_host(case):
    """Page-locked memory that an argument points into is followed; of what kernels find by themselves one line tells."""
    said, _ = case.window(0, ":window=1:capture-range=cudaProfilerApi", 4)
    assert said == [], said
    said, _ = case.host("hidden", 0, 1)
    assert len(said) == 1 and "page-locked memory that no argument" in said[0], said
    assert "page-locked memory that no argument" in case.dump(), case.dump()


def page_locked(case, what, outcomes, ranged):
    """One race, with these two values of the first word that differs, and no other difference; none without the fault."""
    said, (status, report) = case.host(what, 1, ranged)
    assert said == [] and status == 1, (said, report)
    assert [(race["certainty"], race["verdict"]) for race in report["races"]] == [("certain", "harmful")], report["races"]
    differences = report["races"][0]["differences"]
    assert {differences[0]["example"][side] for side in "ab"} == outcomes, differences
    assert len({difference["allocation"] for difference in differences}) == 1, differences
    said, (status, report) = case.host(what, 0, ranged)
    assert said == [] and status == 0 and not report["races"], (said, report)


@over_embedded
def staging_buffer(case):
    """The upload brings what the host wrote or what the download left; the host's later write belongs to neither."""
    for ranged in (0, 1):
        page_locked(case, "staging", {100, 7}, ranged)


@over_embedded
def mapped_memory(case):
    for ranged in (0, 1):
        page_locked(case, "mapped", {100, 5}, ranged)


@over_embedded
def launch_that_fails(case):
    """It was given page-locked memory; what the host writes there afterwards is the host's."""
    for ranged in (0, 1):
        page_locked(case, "fails", {9, 7}, ranged)


@over_embedded
def memory_of_another_device(case):
    """It is never read; where a kernel is given it, the window cannot be used."""
    for ranged in (0, 1):
        said, (status, report) = case.host("doorbell", 0, ranged)
        assert said == [] and status == 0 and not report["races"], (said, report)
        said, _ = case.host("doorbell", 1, ranged, False)
        assert len(said) == 1 and "is given memory of another device" in said[0], said


@over_embedded
def copy_of_a_plane(case):
    for ranged in (0, 1):
        page_locked(case, "plane", {3, 5}, ranged)


@over_embedded
def window_budget(case):
    """What does not fit is said, in the trace too, and nothing is replayed."""
    said, _ = case.window(1, ":window=1:window-budget=0:capture-range=cudaProfilerApi")
    assert len(said) == 1 and "window for replay cannot be used" in said[0], said
    done = subprocess.run([options.deadheat, "replay", case.trace], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2 and "budget" in done.stderr, (done.returncode, done.stderr)


@over_embedded
def window_without_end(case):
    """A job that ends, or is killed, inside of its window: nobody takes the trace for one that can be run again."""
    for ranged in (2, 3):
        said, _ = case.window(1, ":window=1:capture-range=cudaProfilerApi", ranged)
        assert len(said) == (ranged == 2), said
        done = subprocess.run([options.deadheat, "replay", case.trace], text=True, capture_output=True, timeout=60)
        assert done.returncode == 2 and "ended inside" in done.stderr, (done.returncode, done.stderr)
        shutil.rmtree(case.trace)


@over_embedded
def python_lines(case):
    """A launch by a thread that holds Python's lock knows its line; one of the program, where there is one."""
    places, lines = case.python("held")
    assert [place and place.group(1) for place in places] == lines, (places, lines)


@over_embedded
def python_without_its_lock(case):
    places, _ = case.python("released")
    assert places == [None, None], places


@over_embedded
def kernel_that_waits_for_the_host(case):
    """Whatever another stream's kernel goes on writing: the host's wait for a stream ends, and so does the job."""
    for what in ("waits", "leaves"):
        for settings in ("", ":budget=0"):
            done = case.device(what, settings)
            assert done.returncode == 0, (what, done.returncode, done.stderr)
            shutil.rmtree(case.trace)


@over_embedded
def first_launches_beside_one_that_waits(case):
    """Code that is loaded may have to wait for kernels that run: for one that waits for the host that is done once."""
    done = case.device("others")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert int(done.stdout.split()[0]) < 5000, done.stdout
    assert "missing" not in case.dump(), case.dump()


@over_embedded
def buffers_that_nobody_read(case):
    """A warp that gave up: nobody waits for room any more, and later operations are in a killed job's trace."""
    done = case.device("gives_up")
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stderr)
    assert done.stdout.splitlines()[0] == "f" * 16, done.stdout
    assert len(done.stderr.splitlines()) == 1 and "not recorded" in done.stderr, done.stderr
    summary = case.dump()
    assert re.search(r"6 x fill", summary), summary


@over_embedded
def cooperative(case):
    """A grid that only the original's blocks fit runs as it is; smaller ones are recorded."""
    done = case.device("cooperative")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "132 of its blocks" in done.stderr, done.stderr
    records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
    launches = [record for record in records.splitlines() if " kernel fill " in record]
    assert len(launches) == 2, records[:2000]
    assert ["cooperative instrumented" in launch for launch in launches] == [False, True], launches


@over_embedded
def compiled_apart(case):
    """Source files that were compiled apart are linked and instrumented; not where one of them has no PTX."""
    for what, races, opaque in (("separate", ["certain"], 0), ("separate_ordered", [], 0), ("separate_opaque", [], 1)):
        done = case.device(what)
        assert done.returncode == 0 and done.stdout.splitlines()[0] == str(sum(range(100, 132))), (what, done.stdout)
        said = done.stderr.splitlines()
        assert len(said) == opaque and all("without PTX" in line for line in said), (what, said)
        records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
        launches = [record for record in records.splitlines() if re.search(r" kernel (produce|consume) ", record)]
        assert [" instrumented" in launch for launch in launches] == [not opaque] * 2, launches
        analysis = subprocess.run([options.deadheat, "analyze", case.trace, "--json", "-"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        found = json.loads(analysis.stdout)["races"]
        assert [race["certainty"] for race in found] == races, (what, found)
        assert all({race["first"]["kernel"], race["second"]["kernel"]} == {"produce", "consume"} for race in found), found
        shutil.rmtree(case.trace)


@over_embedded
def functions_of_streams(case):
    """What a stream's host function comes behind is complete when it runs, and it may tell anybody."""
    for what, races in (("told_by_function", 0), ("told_by_callback", 0), ("told_too_early", 1)):
        done = case.device(what)
        assert (done.returncode, done.stderr) == (0, ""), (what, done)
        analysis = subprocess.run([options.deadheat, "analyze", case.trace, "--json", "-"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        report = json.loads(analysis.stdout)
        assert len(report["races"]) == races and report["summary"]["complete"], (what, report)
        shutil.rmtree(case.trace)


@over_embedded
def modules_from_files(case):
    done = case.device("files")
    assert (done.returncode, done.stderr) == (0, ""), done
    records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
    launches = [record for record in records.splitlines() if " kernel fill " in record]
    assert [" instrumented" in launch for launch in launches] == [True, True], launches
    assert "incident" not in records, records[-2000:]


@over_embedded
def unloaded_module(case):
    """Its variables are freed with it, which orders nothing: kernels before and after still race."""
    done = case.device("unloads")
    assert (done.returncode, done.stderr) == (0, ""), done
    records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
    symbol = re.search(r"^allocate (\d+) symbol .*name table", records, re.M)
    launches = [match.start() for match in re.finditer(r"^operation .* kernel fill ", records, re.M)]
    freed = re.search(r"^free %s thread" % (symbol and symbol.group(1)), records, re.M)
    assert freed and len(launches) == 2 and launches[0] < freed.start() < launches[1], records[:3000]
    analysis = subprocess.run([options.deadheat, "analyze", case.trace, "--json", "-"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
    report = json.loads(analysis.stdout)
    assert [race["certainty"] for race in report["races"]] == ["certain"], report["races"]
    assert report["summary"]["complete"], report["summary"]


@over_embedded
def empty_variables(case):
    done = case.device("empty")
    assert (done.returncode, done.stderr) == (0, ""), done


@over_embedded
def no_memory_at_an_opaque_launch(case):
    """The thread that had the device for itself does not keep it; the window says that it cannot be used."""
    done = case.device("no_memory", ":window=1:capture-range=cudaProfilerApi:launch-skip=1000")
    assert done.returncode == 0 and "the window for replay cannot be used" in done.stderr, done.stderr


@over_embedded
def no_buffers(case):
    """Where there is no memory for buffers, what there was of it is given back."""
    done = case.device("no_buffers", variables={"EMBEDDED_NO_PAGE_LOCKED": "1"})
    assert done.returncode == 0 and "operations only" in done.stderr, done
    assert done.stdout.splitlines()[0] == "2 allocations", done.stdout


@over_embedded
def no_window(case):
    case.window(1, "")
    done = subprocess.run([options.deadheat, "replay", case.trace], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2 and "--window" in done.stderr, (done.returncode, done.stderr)


cases = [blocks_of_torch, lists_of_blocks, blocks_that_are_not_told, blocks_that_make_no_sense, whole, by_another_name, cost_of_two_builds, threads, layers, watches_what_it_needs, detaches, leaves_at_once, killed, forks, forks_while_others_launch, crashes,
         waits_for_a_signal, short_threads, allocates_nothing, executes, ranks, idle, ranges, no_cupti, busy, unwritable, full_disk,
         bad_options, kernel_that_waits_for_the_host, first_launches_beside_one_that_waits, buffers_that_nobody_read, cooperative, compiled_apart, functions_of_streams, modules_from_files, unloaded_module,
         empty_variables,
         no_memory_at_an_opaque_launch, windows, window_of_the_whole_run, window_without_fault,
         window_reaches_the_host, staging_buffer, mapped_memory, launch_that_fails, memory_of_another_device, copy_of_a_plane, window_budget, no_window, no_buffers,
         timestamps, times_of_races, window_without_end,
         python_lines, python_without_its_lock]
passed = failed = 0
for test in cases:
    if options.cases and test.__name__ not in options.cases:
        continue
    if not options.embedded and hasattr(test, "over_embedded"):
        print("SKIP %s: no --embedded" % test.__name__)
        continue
    case = Case()
    try:
        test(case)
        print("PASS", test.__name__)
        passed += 1
    except (AssertionError, subprocess.TimeoutExpired) as why:
        print("FAIL %s: %s" % (test.__name__, str(why)[:1500]))
        failed += 1
    shutil.rmtree(case.work, ignore_errors=True)
print("%d passed, %d failed" % (passed, failed))
sys.exit(1 if failed or not passed else 0)
