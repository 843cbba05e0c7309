"""Jobs that end or go on in ways that are seldom (trouble_job.cpp): none of them is to be changed by the library."""
import os
import shutil
import signal

from tracer_case import options, over_embedded


def trouble(case, what, **how):
    shutil.rmtree(case.trace, ignore_errors=True)
    return case.device(what, job="trouble_job", **how)


def launches_of(case, kernel):
    return [record for record in case.records().splitlines()
            if record.startswith("operation ") and " kernel %s " % kernel in record]


@over_embedded
def launch_without_parameters(case):
    """It fails as it would."""
    done = trouble(case, "no_parameters")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "1\ndone\n"), done
    assert not launches_of(case, "fill"), case.records()


@over_embedded
def clusters_that_a_kernel_requires(case):
    """Its clone has the clusters that the program asked for (cuFuncSetAttribute)."""
    done = trouble(case, "clusters")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "2\n1\ndone\n"), done
    launches = launches_of(case, "blocks")
    assert [" instrumented" in launch for launch in launches] == [True, True], launches
    assert ["cluster 2x1x1" in launch for launch in launches] == [True, False], launches


@over_embedded
def clusters_that_nobody_asked_for(case):
    """Launches ask the driver for nothing where the program has set nothing."""
    done = trouble(case, "asks")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\ndone\n"), done


@over_embedded
def clusters_that_a_launch_prefers(case):
    """Which cluster has which size nothing tells: the launch is opaque, where they may differ."""
    done = trouble(case, "preferred")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "preferred" in done.stderr, done
    launches = launches_of(case, "blocks")
    assert [" instrumented" in launch for launch in launches] == [True, False], launches


@over_embedded
def library_for_several_devices(case):
    """A library's kernels may be launched on another GPU, for which instrumented code is of no use."""
    for other, variables in ((False, {}), (True, {"EMBEDDED_OTHER_DEVICE": "1"})):
        done = trouble(case, "library", variables=variables)
        assert done.returncode == 0 and ("several architectures" in done.stderr) == other, done
        launch, = launches_of(case, "fill")
        assert (" instrumented" in launch) != other, launch


@over_embedded
def long_names(case):
    """Names are compared with what is asked for on a stack that has room for it."""
    done = trouble(case, "long_name", settings=":kernel=.*y.*|.*x.*")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert case.analysis()["summary"]["instrumented"] == 1, case.dump()


@over_embedded
def launch_without_end(case):
    """What comes behind it is written all the same once it is too much, and the trace says what it lacks."""
    done = trouble(case, "floods", settings=":budget=1")
    assert done.returncode == -signal.SIGKILL and "does not end" in done.stderr, done
    assert "did not end" in case.dump() or "incomplete" in case.dump(), case.dump()
    sets = [record for record in case.records().splitlines() if record.startswith("operation ") and " set " in record]
    assert len(sets) == 4, sets


@over_embedded
def driver_refuses_instrumented_code(case):
    """When it is loaded, or later one kernel of it, or a launch: the job runs its own, and sees no error."""
    alone = "0 0 0 0 nothing:0 1488 1488 1488 1488\ndone\n"
    for refuses, line in (("nothing", None), ("images", "did not load its instrumented code"),
                          ("kernels", "did not load its instrumented code"),
                          ("clones", "the driver did not load it instrumented"),
                          ("launches", "did not launch it instrumented")):
        done = trouble(case, "refused", variables={"EMBEDDED_REFUSES": refuses})
        assert (done.returncode, done.stdout) == (0, alone), (refuses, done)
        launches = launches_of(case, "fill")
        assert len(launches) == 12, launches
        assert all((" instrumented" in launch) == (line is None) for launch in launches), (refuses, launches)
        assert all(line and line in said for said in done.stderr.splitlines()), (refuses, done.stderr)
        assert line is None or line in case.dump(), case.dump()
        said = done.stderr.splitlines()
        assert len(said) == len(set(said)) and bool(said) == bool(line), said
        assert not case.analysis()["races"], case.dump()


@over_embedded
def job_that_needs_all_memory(case):
    """It has back what its accesses were recorded in, but for a little, by which recording goes on: graphs' too."""
    variables = {"EMBEDDED_MEMORY": "48", "DEADHEAT_RINGS": "4x8192"}
    done = trouble(case, "crowded", variables=variables)
    # Of 48 MiB: two small buffers of the job's, and what recording goes on with: four rings of 512 KiB, and some more.
    assert (done.returncode, done.stdout) == (0, "45 MiB, 45 pieces, then 2: 8928\ndone\n"), done
    said, = done.stderr.splitlines()
    assert "has it back" in said, said
    launches = launches_of(case, "fill")
    assert len(launches) == 18 and all(" instrumented" in launch for launch in launches), launches
    report = case.analysis()
    assert report["summary"]["complete"] and report["summary"]["accesses"] == 18 * 32 and not report["races"], report
    # Alone, with what nobody records.
    done = trouble(case, "crowded", variables=variables, settings=":accesses=0")
    assert done.stdout == "47 MiB, 47 pieces, then 2: 8928\ndone\n" and not done.stderr, done


@over_embedded
def driver_that_does_not_answer(case):
    """The job ends without what is still on the device, and says so."""
    done = trouble(case, "stuck")
    said = done.stderr.splitlines()
    assert done.returncode == 0 and len(said) == 1 and "is cut off" in said[0], done


@over_embedded
def no_memory_for_the_journal(case):
    """Nothing is recorded, and nothing is thrown into the driver that calls a host function."""
    done = trouble(case, "no_blocks")
    assert done.returncode == 0, done


@over_embedded
def older_driver(case):
    """Drivers of CUDA 12.0 lack some of what graphs are asked with."""
    folder = os.path.join(case.work, "older")
    os.mkdir(folder)
    with open(os.path.join(options.embedded, "libcuda.so.1"), "rb") as file:
        library = file.read()
    for name in (b"cuGraphGetEdges_v2", b"cuKernelGetName", b"cuFuncGetName", b"cuFuncGetParamInfo"):
        library = library.replace(b"\0" + name + b"\0", b"\0" + b"X" * len(name) + b"\0")
    with open(os.path.join(folder, "libcuda.so.1"), "wb") as file:
        file.write(library)
    for what in ("dependent", "added"):
        shutil.rmtree(case.trace, ignore_errors=True)
        done = case.device(what, "0", job="graph_job", before=folder)
        assert (done.returncode, done.stderr) == (0, ""), (what, done)
        assert not case.analysis()["races"], case.dump()


cases = [launch_without_parameters, clusters_that_a_kernel_requires, clusters_that_nobody_asked_for, clusters_that_a_launch_prefers,
         library_for_several_devices, job_that_needs_all_memory, long_names, launch_without_end, driver_refuses_instrumented_code, driver_that_does_not_answer,
         no_memory_for_the_journal, older_driver]
