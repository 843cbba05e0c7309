"""What it does where kernels run (embedded_cuda.cpp): windows, buffers, modules, who waits for whom."""
import json
import re
import shutil
import signal
import subprocess

from tracer_case import options, over_embedded


@over_embedded
def windows(case, settings=":window=1:capture-range=cudaProfilerApi", ranged=1):
    """A window is executed again without the device it was recorded on: memory, copies, pointers, opaque kernels."""
    said, _ = case.window(1, settings, ranged)
    assert said == [], said
    is_executed_again(case)


def is_executed_again(case):
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
    assert records.count("\ntensor_map ") == 1, "what the driver's bytes of a map mean is said once"


@over_embedded
def window_of_a_job_that_needs_all_memory(case):
    """It has back what its memory was kept in, and is told of it; what was kept goes on on the host."""
    variables = {"EMBEDDED_MEMORY": "48", "DEADHEAT_RINGS": "4x8192"}
    said, total = case.window(1, "", 12, variables)
    assert len(said) == 1 and "recording goes on with less" in said[0], said
    shutil.rmtree(case.trace)
    said, with_window = case.window(1, ":window=1:capture-range=cudaProfilerApi", 12, variables)
    assert with_window == total, (with_window, total)
    assert len(said) == 2 and "window was kept" in said[1], said
    is_executed_again(case)


@over_embedded
def window_of_the_whole_run(case):
    windows(case, ":window=1", 0)


@over_embedded
def window_with_graphs(case):
    """A graph's opaque nodes are kept by effect, each for itself; the others are executed again. The job's results stay."""
    sums = {ranged: case.window(0, "", ranged)[1] for ranged in (1, 5, 6)}
    assert len(set(sums.values())) == 1, sums
    for ranged in (5, 6):
        shutil.rmtree(case.trace, ignore_errors=True)
        said, total = case.window(0, ":window=1:capture-range=cudaProfilerApi", ranged)
        assert (said, total) == ([], sums[1]), (ranged, said, total)
        status, report = case.replay()
        assert status == 0 and not report["races"], (ranged, report)
        lines = [line for line in case.records().splitlines() if line.startswith("effects")]
        assert len(lines) == 1 and " address " in lines[0] and "bytes 16384" in lines[0], (ranged, lines)
        shutil.rmtree(case.trace)
        said, _ = case.window(1, ":window=1:capture-range=cudaProfilerApi", ranged)
        status, report = case.replay()
        race, = (race for race in report["races"] if race["certainty"] == "certain")
        assert said == [] and status == 1 and race["verdict"] == "harmful", (ranged, said, report)
        assert (race["first"]["kernel"], race["second"]["kernel"]) == ("scale", "cuMemcpyHtoDAsync"), race
        example = race["differences"][0]["example"]
        assert {example["a"], example["b"]} == {300, 150000}, race["differences"]
        status, again = case.replay("--witness", race["witness"])
        assert status == 1 and again["witness"]["as_recorded"], again


@over_embedded
def graph_that_was_made_before(case):
    """Its kernels are recorded in the range, and no others; a driver that launches the program's own graph all the same
    is no harm, and one line says what is missing."""
    total = case.window(0, "", 9)[1]
    for fault, ranged in ((0, 9), (1, 9), (0, 11), (1, 11)):
        shutil.rmtree(case.trace)
        said, recorded = case.window(fault, ":capture-range=cudaProfilerApi", ranged)
        assert said == [] and (fault or recorded == total), (said, recorded, total)
        assert "(2 instrumented, 8 opaque)" in case.dump(), case.dump()
        certain = [race for race in case.analysis()["races"] if race["certainty"] == "certain"]
        assert [(race["first"]["kernel"], race["second"]["kernel"]) for race in certain] == \
            [("scale", "cuMemcpyHtoDAsync")] * fault, certain
    shutil.rmtree(case.trace)
    said, recorded = case.window(0, ":capture-range=cudaProfilerApi", 9, {"EMBEDDED_OWN_GRAPHS": "1"})
    assert recorded == total and len(said) == 1 and "does not launch another graph" in said[0], (said, recorded)
    assert "(0 instrumented, 10 opaque)" in case.dump(), case.dump()


@over_embedded
def graph_when_the_budget_is_used_up(case):
    """Its kernels are the program's own from then on: nobody would read what clones write."""
    total = case.window(0, "", 10)[1]
    shutil.rmtree(case.trace)
    said, recorded = case.window(0, ":budget=1", 10)
    assert recorded == total and len(said) == 1 and "budget" in said[0], (said, recorded, total)
    instrumented, opaque = map(int, re.search(r"\((\d+) instrumented, (\d+) opaque\)", case.dump()).groups())
    assert 2 < instrumented < 100 and instrumented + opaque == 181, (instrumented, opaque)


@over_embedded
def window_with_a_graph_in_one_piece(case):
    """What cannot be launched node by node is launched as it is, and said."""
    total = case.window(0, "", 7)[1]
    shutil.rmtree(case.trace)
    said, recorded = case.window(0, ":window=1:capture-range=cudaProfilerApi", 7)
    assert recorded == total and len(said) == 1 and "it has a host function" in said[0], (said, recorded, total)
    assert case.analysis()["summary"]["launches"] >= 4, case.analysis()["summary"]


@over_embedded
def window_with_uploads_by_graphs(case):
    """What copies that are nodes bring is read before the launch, beside opaque kernels and without any."""
    total = case.window(0, "", 8)[1]
    for fault in (0, 1):
        shutil.rmtree(case.trace, ignore_errors=True)
        said, recorded = case.window(fault, ":window=1:capture-range=cudaProfilerApi", 8)
        assert said == [] and (fault or recorded == total), (said, recorded, total)
        status, report = case.replay()
        assert status == fault and bool(report["races"]) == bool(fault), report
    race, = (race for race in report["races"]
             if (race["first"]["kernel"], race["second"]["kernel"]) == ("scale", "cuMemcpyHtoDAsync"))
    # Three times what the second launch uploaded, or three times what came.
    example = race["differences"][0]["example"]
    assert race["verdict"] == "harmful" and {example["a"], example["b"]} == {3000, 150000}, race
    for ranged in (0, 1):
        for what, brought in (("graph", 450), ("graph_behind", 450)):
            said, (status, report) = case.host(what, 0, ranged)
            assert said == [] and status == 0 and not report["races"], (what, said, report)
            said, (status, report) = case.host(what, 1, ranged)
            assert said == [] and status == 1 and report["races"], (what, said, report)
            assert what == "graph_behind" or "\neffects" not in case.records(), case.records()
            values = {race["differences"][0]["example"][side] for race in report["races"] for side in "ab"}
            assert {brought, 5} <= values <= {brought, 5, 15}, (what, report["races"])
    said, _ = case.host("graph_ahead", 0, 1, False)
    assert len(said) == 1 and "what a host function of it may write" in said[0], said
    # The recorded kernel comes behind the upload, and that behind the function: each of the two launches.
    assert case.analysis()["summary"]["complete"] and case.analysis()["races"] == [], case.analysis()


@over_embedded
def graph_that_the_driver_launches_itself(case):
    """A driver that does not launch what it is given in place of a graph runs the job's work once; the window is no use.
    Its kernels are opaque: of others the log may wait for their launch to be known, and this driver waits for them."""
    total = case.window(0, "", 6)[1]
    shutil.rmtree(case.trace)
    said, recorded = case.window(0, ":window=1:capture-range=cudaProfilerApi", 6, {"EMBEDDED_OWN_GRAPHS": "1"})
    assert recorded == total and len(said) == 1 and "launched it as a whole" in said[0], (said, recorded, total)


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
def refilled_buffer(case):
    """The upload brings what the buffer held, or what the host wrote into it too early."""
    for ranged in (0, 1):
        page_locked(case, "refill", {100, 9}, ranged)


def refilled_by_function(case, fault, ranged):
    """What comes of it where the function was alone, which it may not be on a machine that is busy; and its records."""
    for attempt in range(6):
        said, (status, report) = case.host("function", fault, ranged, pause=150 << attempt)
        records = case.records().splitlines()
        if any(record.startswith("effects") for record in records):
            break
    assert said == [], said
    return status, report, records


@over_embedded
def function_that_refills(case):
    """The upload brings what the buffer held, or what the function wrote, which a replay performs in its place, and once."""
    for ranged in (0, 1):
        status, report, records = refilled_by_function(case, 0, ranged)
        assert status == 0 and not report["races"], report
        wrote = min(i for i, record in enumerate(records) if record.startswith("effects"))
        assert not any(record.startswith("host_write ") for record in records[wrote:]), records
        function, = re.findall(r"^effects operation (\d+)", records[wrote])
        accesses = [i for i, record in enumerate(records) if record.startswith("access ")]
        assert accesses and min(accesses) > records.index("end operation " + function), records
        status, report, records = refilled_by_function(case, 1, ranged)
        race, = report["races"]
        assert status == 1 and (race["certainty"], race["verdict"]) == ("certain", "harmful"), race
        assert (race["first"]["kernel"], race["second"]["kernel"]) == ("cuMemcpyHtoDAsync", "cuLaunchHostFunc"), race
        # What is uploaded behind the function is the same in both orders.
        difference, = race["differences"]
        assert {difference["example"][side] for side in "ab"} == {100, 150}, difference
        assert not any("api the host itself" in record for record in records), records


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
            done = case.device(what, settings=settings)
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
def launches_that_tell_each_other(case):
    """Who waits for another launch comes behind it, though it was launched first; not where something lies between."""
    for what, races in (("messages", []), ("messages_relaxed", ["certain"]), ("messages_apart", ["possible"])):
        done = case.device(what)
        assert (done.returncode, done.stdout, done.stderr) == (0, "496\ndone\n", ""), (what, done)
        analysis = subprocess.run([options.deadheat, "analyze", case.trace, "--json", "-"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        report = json.loads(analysis.stdout)
        assert [race["certainty"] for race in report["races"]] == races and report["summary"]["complete"], (what, report)
        shutil.rmtree(case.trace)


@over_embedded
def a_launch_that_waits_in_vain(case):
    """What is to be written with others is in the trace of a job that is killed."""
    done = case.device("hangs")
    assert done.returncode == -signal.SIGKILL and done.stderr == "", done
    assert "1 x give" in case.dump(), case.dump()


@over_embedded
def modules_from_files(case):
    done = case.device("files")
    assert (done.returncode, done.stderr) == (0, ""), done
    records = subprocess.run([options.deadheat, "info", "--records", case.trace], text=True, stdout=subprocess.PIPE).stdout
    launches = [record for record in records.splitlines() if " kernel fill " in record]
    assert [" instrumented" in launch for launch in launches] == [True, True], launches
    assert "incident" not in records, records[-2000:]


@over_embedded
def modules_from_files_of_a_job_that_may_write_none(case):
    """There is no file for the instrumented code: the program's own is loaded, and no signal ends it."""
    done = case.device("files_limited", variables={"DEADHEAT_CACHE": "0"})
    assert "recording stopped" in done.stderr or "no file in memory" in done.stderr, done


@over_embedded
def kernels_of_a_module(case):
    """A program that asks which kernels a module has is told of its own, not of their clones."""
    alone = case.device("lists", settings=":accesses=0").stdout
    shutil.rmtree(case.trace)
    done = case.device("lists")
    assert done.returncode == 0 and done.stdout == alone and "fill" in alone, (done.stdout, alone)
    assert "__deadheat" not in done.stdout


@over_embedded
def crowded_queue(case):
    """However much is queued without waiting: each launch is recorded, and the job ends."""
    done = case.device("crowd")
    assert (done.returncode, done.stderr) == (0, ""), done
    launches = [record for record in case.records().splitlines() if " kernel fill " in record]
    assert len(launches) == 300 and all(" instrumented" in launch for launch in launches), len(launches)
    assert case.analysis()["summary"]["complete"]


@over_embedded
def modules_of_cufft(case):
    """cuFFT wants a module of its to have one kernel, as it made it: no clone is put beside it."""
    done = case.device("tables")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "cuFFT" in case.dump(), case.dump()
    launches = [record for record in case.records().splitlines() if " kernel fill " in record]
    assert len(launches) == 1 and " opaque" in launches[0], launches


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
def device_that_is_reset(case):
    """What the library had there is gone, too: later kernels are recorded anew, into memory of their own."""
    done = case.device("resets")
    assert (done.returncode, done.stderr) == (0, ""), done
    report = case.analysis()
    assert report["summary"]["instrumented"] == 2 and report["summary"]["complete"], report["summary"]
    assert not report["races"] and report["summary"]["accesses"] == 64, report
    records = case.records()
    frees = [line for line in records.splitlines() if line.startswith("free ")]
    assert len(frees) == 4, records  # memory and flag, twice
    assert sum(line.startswith("stream_destroy ") for line in records.splitlines()) == 4, records


@over_embedded
def empty_variables(case):
    done = case.device("empty")
    assert (done.returncode, done.stderr) == (0, ""), done


@over_embedded
def no_memory_at_an_opaque_launch(case):
    """The thread that had the device for itself does not keep it; the window says that it cannot be used."""
    done = case.device("no_memory", settings=":window=1:capture-range=cudaProfilerApi:launch-skip=1000")
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


cases = [kernel_that_waits_for_the_host, first_launches_beside_one_that_waits, buffers_that_nobody_read,
         launches_that_tell_each_other, a_launch_that_waits_in_vain,
         cooperative, compiled_apart, functions_of_streams, modules_from_files, modules_from_files_of_a_job_that_may_write_none, kernels_of_a_module, crowded_queue, modules_of_cufft, unloaded_module, device_that_is_reset, empty_variables,
         no_memory_at_an_opaque_launch, windows, window_of_a_job_that_needs_all_memory, window_of_the_whole_run, window_with_graphs, graph_that_was_made_before,
         graph_when_the_budget_is_used_up,
         window_with_a_graph_in_one_piece, window_with_uploads_by_graphs, graph_that_the_driver_launches_itself, window_without_fault,
         window_reaches_the_host, staging_buffer, function_that_refills, mapped_memory, launch_that_fails, memory_of_another_device,
         copy_of_a_plane, refilled_buffer, window_budget, no_window, no_buffers, window_without_end, python_lines,
         python_without_its_lock]
