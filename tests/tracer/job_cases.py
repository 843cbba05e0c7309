"""What the preload library does in a process whose driver does nothing (fake_cuda.cpp): processes, threads, settings."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from tracer_case import job, options, over_embedded


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


def slow_storage(case):
    """Who launches faster than it takes what is written waits: memory is bounded, and nothing is lost."""
    status, said = case.run(300_000, 2, "slow", settings=":budget=1")
    grown = int(case.printed.split()[0])
    assert (status, said) == (3, []) and grown < 16, (status, said, grown)
    assert case.launches() == 2 * 270_000, case.dump()


def stalled_storage(case):
    """The job goes on without being recorded, and ends; both are said."""
    status, said = case.run(300_000, 2, "stalled", settings=":budget=1")
    grown = int(case.printed.split()[0])
    assert status == 3 and grown < 16, (status, grown)
    assert len(said) == 2 and "nothing more is recorded" in said[0] and "cut off" in said[1], said


def many_modules(case):
    """What finding, launching and unloading functions takes does not grow with how many there are."""
    status, said = case.run(1, 3, "modules")
    few, many = map(float, case.printed.split()[:2])  # ten times as many
    assert (status, said) == (3, []) and many < 40 * few + 100, (status, said, few, many)


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
    """The handler of a signal that comes while a launch is being written down ends the process. What was under way then
    is cut off, and that is said."""
    status, said = case.run(100, 1, "crash")
    assert status == 3 and len(said) == 1 and "is cut off" in said[0], (status, said)


def exits_in_a_handler(case):
    """Likewise, with exit handlers, of which the library's is one."""
    status, said = case.run(100, 1, "crash_exit")
    assert status == 3 and len(said) == 1 and "is cut off" in said[0], (status, said)


def exits_while_others_launch(case):
    """What they do from then on is not in the trace, however long they go on."""
    status, said = case.run(100, 1, "endless")
    assert (status, said) == (3, []), (status, said)
    assert case.launches() >= 90, case.dump()
    assert not [f for f in os.listdir(case.trace) if f.endswith("incomplete")], os.listdir(case.trace)


def nobody_reads_what_it_says(case):
    """Standard error is a pipe whose reader has gone, or never reads: the job, which says nothing there, goes on."""
    for full in (False, True):
        reader, writer = os.pipe()
        if full:
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, b"x" * 4096)
            except BlockingIOError:
                os.set_blocking(writer, True)
        else:
            os.close(reader)
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder),
                         LD_PRELOAD=os.path.abspath(options.tracer), DEADHEAT_OPTIONS="output=/proc/no/trace:device=gpu")
        done = subprocess.run([job, "100", "1", "return"], env=variables, text=True, stdout=subprocess.PIPE,
                              stderr=writer, timeout=60)
        os.close(writer)
        if full:
            os.close(reader)
        assert (done.returncode, done.stdout) == (3, "done\n"), (full, done)


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


def blocks_of_graphs(case):
    """A captured kernel reaches the block that it was given, though that was given back before the graph was made; one
    that was changed since reaches what it is given now."""
    assert case.torch("graph") == ([], 3, 0)
    assert case.torch("graph-reuse") == ([], 5, 1)
    assert case.torch("graph-changed") == ([], 3, 1)
    assert case.torch("graph-made") == ([], 6, 0)
    assert case.torch("graph-set") == ([], 7, 0)
    assert case.torch("graph-child") == ([], 3, 0)


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


def preloaded_alone(case):
    """Nothing but LD_PRELOAD: a job's processes share a trace, the next job has another; CUDA_INJECTION64_PATH does too."""
    folder = os.path.abspath(options.folder)
    command = [job, "100", "1", "return"]

    work = os.path.join(case.work, "50%: odd names")
    os.mkdir(work)

    def runs(command, said, variable="LD_PRELOAD", **more):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("DEADHEAT_")}
        variables.update(LD_LIBRARY_PATH=folder, **{variable: os.path.abspath(options.tracer)}, **more)
        done = subprocess.run(command, env=variables, cwd=work, text=True, capture_output=True, timeout=60)
        assert done.stdout.endswith("done\n"), done
        places = [re.match(r"deadheat: records to (/.+) \(DEADHEAT_OPTIONS", line) for line in done.stderr.splitlines()]
        assert all(places) and [os.path.basename(place.group(1)) for place in places] == said, done.stderr
    runs(command, ["run.deadheat"])
    assert case.launches(os.path.join(work, "run.deadheat")) == 90
    runs(["sh", "-c", "%s; %s" % (" ".join(command), " ".join(command))], ["run-2.deadheat"] * 2)
    assert len(os.listdir(os.path.join(work, "run-2.deadheat"))) == 2
    assert case.launches(os.path.join(work, "run-2.deadheat")) == 180
    runs(command, ["run-3.deadheat"], DEADHEAT_OPTIONS="accesses=0")
    runs(command, ["run-4.deadheat"], variable="CUDA_INJECTION64_PATH")
    runs(command, [], DEADHEAT_OPTIONS="output=named")
    runs(command, [], DEADHEAT_OPTIONS="accesses=0:output=")
    made = [name for name in os.listdir(work)]
    assert sorted(made) == ["named", "run-2.deadheat", "run-3.deadheat", "run-4.deadheat", "run.deadheat"], made


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


def copies(case):
    """Every kind of copy reads and writes what its parameters say."""
    for what in ("batch", "batch_first", "within", "volumes", "peer", "to_array"):
        for early in (0, 1):
            report = case.calls(what, early)
            assert [race["certainty"] for race in report["races"]] == ["certain"] * (not early), (what, early, report)
            assert report["summary"]["complete"], (what, report)


def orders(case):
    """What tells a stream or the host of another stream's work orders what comes before it, and nothing else."""
    for what in ("values", "batch_of_values", "counted", "elapsed", "completion", "copying", "source", "source_later",
                 "pool_freed", "keeps"):
        for early in (0, 1):
            report = case.calls(what, early)
            assert len(report["races"]) == early and report["summary"]["complete"], (what, early, report)


def memory_handed_on(case):
    """A pool's memory that is given back and out again in one stream, while another reads it."""
    assert not case.calls("handed_on", 0)["races"]
    races = case.calls("handed_on", 1)["races"]
    assert [race["kind"] for race in races] == ["read-free", "read-write", "read-write"], races
    assert all(race["certainty"] == "certain" for race in races), races


def other_processes(case):
    """They may hand on what they have waited for: that is no race, and what is not known of them is said."""
    for what in ("shared", "shared_host", "opened"):
        for early in (0, 1):
            report = case.calls(what, early)
            assert len(report["races"]) == early, (what, early, report)
            assert report["summary"]["complete"] == (what == "opened"), (what, report["summary"])
            assert "other processes" in case.dump(), case.dump()


def copies_that_fail(case):
    """A copy that failed is not in the trace, though it had its place there."""
    report = case.calls("failing", 0)
    assert not report["races"] and report["summary"]["complete"], report
    assert "cuMemcpyDtoH" not in case.records(), case.records()


def copies_that_wait(case):
    """What other threads do while a copy's call waits is in the trace of a job that is killed then; so is the copy."""
    report = case.calls("killed", 0, -signal.SIGKILL)
    assert len(report["races"]) == 1, report["races"]
    assert {report["races"][0][side]["kernel"] for side in ("first", "second")} == {"cuMemcpyDtoH", "cuMemsetD32Async"}


def makers(case):
    """A race says whose code created the streams; what may be none is left to that library, where it created both."""
    def suppressed(name):
        allowed = os.path.join(case.work, "allowed.txt")
        with open(allowed, "w") as file:
            file.write("within:%s\n" % name)
        race, = case.analysis("--suppress", allowed)["races"]
        assert {os.path.basename(race[side]["stream_maker"]) for side in ("first", "second")} == {name}, race
        return race.get("suppressed", False)

    case.calls("values", 1)
    assert not suppressed("calls_job")  # certain
    case.torch("reuse")
    assert suppressed("torch_job")  # possible


def not_followed(case):
    """What is not followed is said, and makes no race."""
    for what, line in (("triggered", "blocks trigger it"), ("unwritten", "no stream was seen writing"),
                       ("freed", "no stream was seen writing"),
                       ("left_out", "cuMemBatchDecompressAsync was called; not recorded: its reads and writes")):
        report = case.calls(what, 0)
        assert not report["races"] and not report["summary"]["complete"], (what, report)
        assert line in case.dump(), case.dump()


cases = [copies, orders, memory_handed_on, other_processes, copies_that_fail, copies_that_wait, makers, not_followed, blocks_of_torch, lists_of_blocks, blocks_of_graphs, blocks_that_are_not_told, blocks_that_make_no_sense, whole,
         by_another_name, cost_of_two_builds, threads, layers, watches_what_it_needs, detaches, leaves_at_once,
         slow_storage, stalled_storage, many_modules,
         killed, forks, forks_while_others_launch, crashes, exits_in_a_handler, exits_while_others_launch,
         nobody_reads_what_it_says, waits_for_a_signal, short_threads, allocates_nothing,
         executes, preloaded_alone, ranks, idle, ranges, no_cupti, busy, unwritable, full_disk, bad_options, timestamps,
         times_of_races]
