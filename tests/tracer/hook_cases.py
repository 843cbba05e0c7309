"""Hooks: callers that come to the driver by dlsym and cuGetProcAddress, and the ones that do not (lookups_job.cpp)."""
import os
import re
import shutil
import subprocess
import sys

import device_cases
import graph_cases
import job_cases
from tracer_case import options, over_embedded

lookups = os.path.join(os.path.abspath(options.folder), "lookups_job")
between = os.path.join(os.path.abspath(options.folder), "libbetween.so")
HOOKED = ["linked", "handle", "default", "first", "second", "again", "own_streams"]
OTHERS = ["to_come", "secret"]


def launch(case, way, *then, threads=2, settings=":accesses=0", environment=None):
    """What was printed and said; every launch is in the trace, once."""
    shutil.rmtree(case.trace, ignore_errors=True)
    status, said = case.run(way, threads, *then, settings=settings, job=lookups,
                            environment={"DEADHEAT_HOOKS": "tell", **(environment or {})})
    assert status == 3, (status, said)
    launched, told, off, on = map(int, case.printed.split()[:4])
    return launched, told, off, on, said


def counts(said, call="cuLaunchKernel"):
    """Calls by its hook, and strays, as the library says."""
    found = [re.match(r"deadheat: %s: .*?(\d+) calls by its hook, (\d+) by CUPTI alone" % call, line) for line in said]
    return [tuple(map(int, match.groups())) for match in found if match]


def hooks_are_found(case):
    """Whoever looks the launch up gets a hook, and CUPTI's callback is switched off; no launch is lost or there twice."""
    for way in HOOKED:
        launched, told, off, on, said = launch(case, way)
        assert case.launches() == launched and case.analysis()["summary"]["complete"], (way, launched, case.dump())
        assert off and not on and told < 2 * launched, (way, told, launched, off, on)
        call = "cuLaunchKernel_ptsz" if way == "own_streams" else "cuLaunchKernel"
        (by_hook, strays), = counts(said, call)
        assert by_hook * 9 == launched * 10 and strays == 0, (way, said)  # every tenth launch fails


def strays_are_kept(case):
    """Who comes by another way is told of by CUPTI for ever."""
    for way in OTHERS:
        launched, told, off, on, said = launch(case, way)
        assert case.launches() == launched and case.analysis()["summary"]["complete"], (way, launched, case.dump())
        assert not off and on and told * 9 == launched * 20, (way, told, launched, off, on)
        (by_hook, strays), = counts(said)
        assert by_hook == 0 and strays * 9 == launched * 10, (way, said)


def many_threads(case):
    """Threads that launch while the callback is switched off: each launch is there once."""
    launched, told, off, on, _ = launch(case, "second", threads=12)
    assert case.launches() == launched and off and not on and told, (launched, told, case.dump())


def library_comes(case):
    """CUPTI tells of calls again where a library has come that may make some."""
    launched, _, off, on, _ = launch(case, "handle", "library")
    assert off and on and case.launches() == launched, (off, on, launched, case.dump())
    assert case.analysis()["summary"]["complete"], case.dump()


def late_strays(case):
    """Another way was found while nobody looked: the trace says that calls may be missing, and has what was seen."""
    launched, _, off, on, _ = launch(case, "handle", "secret")
    assert off and on and case.launches() == launched, (off, on, launched, case.dump())
    assert "calls of cuLaunchKernel came by a way that was not looked at all the time" in case.dump(), case.dump()
    assert not case.analysis()["summary"]["complete"]


def without_hooks(case):
    """Where they are switched off, and where timestamps are asked for, CUPTI tells of everything."""
    for settings, environment in ((":accesses=0", {"DEADHEAT_HOOKS": "0"}), (":accesses=0:timestamps=1", {})):
        launched, told, off, on, said = launch(case, "second", settings=settings, environment=environment)
        assert case.launches() == launched and not off and on, (settings, launched, case.dump())
        assert told * 9 == launched * 20, (settings, told, launched)
        assert not counts(said) or counts(said)[0][0] == 0, said


def nobody_records(case):
    """Hooks pass calls on where nothing is recorded: another tool has CUPTI, or there is no output."""
    launched, told, off, on, said = launch(case, "second", environment={"FAKE_CUPTI_BUSY": "1", "DEADHEAT_HOOKS": "1"})
    assert launched and told == 0 and len(said) == 1 and "another tool" in said[0], (launched, told, said)
    launched, told, off, on, said = launch(case, "second", environment={"DEADHEAT_OPTIONS": ""})
    assert launched and told == 0 and said == [], (launched, told, said)


def injected(case):
    """The library was not preloaded, but comes by the driver: CUPTI tells of everything."""
    case.preloaded = ""
    launched, told, off, on, said = launch(case, "second", environment={"CUDA_INJECTION64_PATH": os.path.abspath(options.tracer)})
    assert case.launches() == launched and on and not off, (launched, told, said)


def hooks_are_detached(case):
    """Nothing is recorded while CUPTI is away; afterwards hooks go on."""
    launched, told, off, on, said = launch(case, "handle", "detach")
    assert case.launches() == launched and off and not on, (launched, said, case.dump())


def lookups_are_as_without(case):
    """What dlsym finds for others, and what dlerror says, is what they say without the library."""
    said = []
    for preloaded in ("", case.preloaded, case.preloaded + ":" + between, between + ":" + case.preloaded):
        variables = dict(os.environ, LD_LIBRARY_PATH=os.path.abspath(options.folder), LD_PRELOAD=preloaded)
        done = subprocess.run([lookups, "handle", "1", "errors"], env=variables, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, done
        said.append(done.stdout)
    assert len(set(said)) == 1 and "undefined symbol: cuNoSuchFunction" in said[0], said


def no_driver(case):
    """A process that has no driver finds none of its functions, whatever the library has of their names."""
    script = """import ctypes
for name in ("cuLaunchKernel", "cuEventRecord", "cuGetProcAddress", "cuInit", "cos"):
    print(name, hasattr(ctypes.CDLL(None), name))
"""
    said = []
    for preloaded in ("", case.preloaded):
        done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, LD_PRELOAD=preloaded), text=True,
                              capture_output=True, timeout=60)
        assert done.returncode == 0 and not done.stderr, done
        said.append(done.stdout)
    assert said[0] == said[1] and "cuLaunchKernel False" in said[0], said


def library_between(case):
    """A library that was preloaded, too, and stands between job and driver, stays there: its calls come by the hooks."""
    alone = case.preloaded
    for case.preloaded in (alone + ":" + between, between + ":" + alone):
        launched, told, off, on, said = launch(case, "linked")
        assert case.launches() == launched and off and not on and counts(said)[0][0] * 9 == launched * 10, (launched, said)
        assert int(case.printed.split()[4]) * 9 == launched * 10, case.printed


def told_by_cupti(cases):
    """The cases without hooks: callbacks do what hooks do."""
    def every(case):
        os.environ["DEADHEAT_HOOKS"] = "0"
        try:
            for test in cases:
                shutil.rmtree(case.trace, ignore_errors=True)
                test(case)
        finally:
            del os.environ["DEADHEAT_HOOKS"]
    return every


jobs_told_by_cupti = told_by_cupti([job_cases.whole, job_cases.threads, job_cases.leaves_at_once, job_cases.forks,
                                    job_cases.crashes, job_cases.detaches, job_cases.copies, job_cases.orders])
jobs_told_by_cupti.__name__ = "jobs_told_by_cupti"
devices_told_by_cupti = over_embedded(told_by_cupti(device_cases.cases))
devices_told_by_cupti.__name__ = "devices_told_by_cupti"
graphs_told_by_cupti = over_embedded(told_by_cupti([test for test in graph_cases.cases if options.embedded]))
graphs_told_by_cupti.__name__ = "graphs_told_by_cupti"

cases = [hooks_are_found, strays_are_kept, many_threads, library_comes, late_strays, without_hooks, nobody_records, injected,
         hooks_are_detached, lookups_are_as_without, no_driver, library_between, jobs_told_by_cupti, devices_told_by_cupti,
         graphs_told_by_cupti]
