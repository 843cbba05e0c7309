"""Who assembles instrumented modules (embedded_cuda.cpp, fake_ptxas.py): a process apart, or the driver; or nobody."""
import os
import shutil

from tracer_case import over_embedded

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_ptxas.py")
FILES = "/proc/self/fd/3 -o /proc/self/fd/4"


def assembled(case, what, how="", settings="", **variables):
    """What device_job said, whether its launches of fill are instrumented, and the calls of ptxas."""
    log = os.path.join(case.work, "ptxas-log")
    shutil.rmtree(case.trace, ignore_errors=True)
    if os.path.exists(log):
        os.unlink(log)
    done = case.device(what, settings=settings, variables={"DEADHEAT_PTXAS": FAKE, "FAKE_PTXAS": how, "FAKE_PTXAS_LOG": log, "DEADHEAT_CACHE": "0", **variables})
    assert done.returncode == 0, (done.returncode, done.stderr)
    case.printed = done.stdout
    launches = [record for record in case.records().splitlines() if " kernel fill " in record]
    calls = []
    if os.path.exists(log):
        with open(log) as lines:
            calls = lines.read().splitlines()
    return done.stderr.splitlines(), [" instrumented" in launch for launch in launches], calls


@over_embedded
def assembled_apart(case):
    """ptxas is asked once whether it can; its cubins are what runs."""
    said, instrumented, calls = assembled(case, "files")
    assert (said, instrumented) == ([], [True, True]), (said, instrumented)
    assert len(calls) == 4 and calls[0] == "-arch=sm_90 -lineinfo %s deadheat_empty" % FILES, calls
    assert all("__deadheat_fill" in call for call in calls[1:]), calls
    assert not case.analysis()["races"] and "incident" not in case.records()


@over_embedded
def assembled_in_an_earlier_run(case):
    """Its cubins run again; ptxas is only asked whether it can."""
    kept = {"DEADHEAT_CACHE": os.path.join(case.work, "kept")}
    _, first, calls = assembled(case, "files", **kept)
    assert first == [True, True] and len(calls) == 2, (first, calls)
    said, again, calls = assembled(case, "files", **kept)
    assert (said, again) == ([], [True, True]), (said, again)
    assert [call.split()[-1] for call in calls] == ["deadheat_empty"], calls
    assert not case.analysis()["races"] and "incident" not in case.records()


@over_embedded
def assembled_by_several_threads(case):
    said, instrumented, calls = assembled(case, "threads")
    assert (said, instrumented) == ([], [True] * 4), (said, instrumented)
    assert len([call for call in calls if "__deadheat_fill" in call]) == 5, calls


@over_embedded
def assembler_crashes(case):
    """The job runs on with its own code, and one line says why nothing is recorded."""
    for how, variables, why in (("crash", {}, "crashed over it (signal 11)"),
                                ("hang", {"DEADHEAT_PTXAS_SECONDS": "1"}, "did not end within 1 s")):
        said, instrumented, _ = assembled(case, "unloads", how, **variables)
        assert instrumented == [False, False], instrumented
        assert len(said) == 1 and why in said[0] and "opaque" in said[0], said
        assert why in case.dump(), case.dump()


@over_embedded
def assembler_refuses(case):
    """The driver assembles, as it does where there is no ptxas."""
    for how in ("refuse", "half", "old"):
        said, instrumented, _ = assembled(case, "options", how)
        assert (said, instrumented) == ([], [True] * 3), (how, said, instrumented)


@over_embedded
def driver_refuses_cubins(case):
    said, instrumented, calls = assembled(case, "threads", EMBEDDED_NO_CUBINS="1")
    assert (said, instrumented) == ([], [True] * 4), (said, instrumented)
    assert all(call.endswith(" deadheat_empty") for call in calls), calls


@over_embedded
def driver_refuses_one_cubin(case):
    """Though it took the one that it was asked about: that is said, and later modules are the driver's to assemble."""
    said, instrumented, _ = assembled(case, "refused", EMBEDDED_NO_CUBINS="modules")
    assert instrumented == [True] and len(said) == 1 and "did not load" in said[0], (said, instrumented)
    assert case.printed == "0\ndone\n", case.printed


@over_embedded
def no_assembler(case):
    for ptxas in ("0", "/no/such/ptxas"):
        said, instrumented, calls = assembled(case, "threads", DEADHEAT_PTXAS=ptxas)
        assert (said, instrumented, calls) == ([], [True] * 4, []), (said, instrumented, calls)


@over_embedded
def options_of_the_assembler(case):
    """Those of the call and of the fat binary are passed on; where ptxas has no such, the driver assembles."""
    said, instrumented, calls = assembled(case, "options")
    assert (said, instrumented) == ([], [True] * 3), (said, instrumented)
    registers = [call.split()[2] for call in calls if "__deadheat_fill" in call]
    assert registers == ["/proc/self/fd/3", "-maxrregcount=40", "-maxrregcount=48"], calls


@over_embedded
def only_what_is_asked_for(case):
    """A module none of whose kernels is to be recorded is left alone."""
    said, instrumented, calls = assembled(case, "threads", settings=":kernel=^other$")
    assert (said, instrumented, calls) == ([], [False] * 4, []), (said, instrumented, calls)
    said, instrumented, calls = assembled(case, "threads", settings=":kernel=^fill$")
    assert (said, instrumented) == ([], [True] * 4), (said, instrumented)
    assert all(call.count("__deadheat_") == 1 for call in calls[1:]), calls


cases = [only_what_is_asked_for, assembled_apart, assembled_in_an_earlier_run, assembled_by_several_threads, assembler_crashes, assembler_refuses, driver_refuses_cubins,
         driver_refuses_one_cubin, no_assembler, options_of_the_assembler]
