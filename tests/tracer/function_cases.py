"""What host functions write into page-locked memory, beside a driver that runs them on threads of its own
(function_job.cpp)."""
import re


def races(case, what, fault, settings=""):
    report = case.refill(what, fault, settings, job="function_job")
    for race in report["races"]:
        assert race["certainty"] == "certain" and report["summary"]["complete"], (what, fault, report)
    return [tuple(sorted(race[side]["kernel"] for side in ("first", "second"))) for race in report["races"]]


def functions_that_write(case):
    """What a function writes is its operation's: a race with copies that nothing orders with it, and told once."""
    function, upload = "cuLaunchHostFunc", "cuMemcpyHtoDAsync"
    pair = (function, upload)
    for settings in ("", ":accesses=0"):
        for what in ("upload", "early", "kept", "part", "registered", "budget", "within", "learned"):
            for fault in (0, 1):
                found = races(case, what, fault, settings)
                assert found == [pair] * fault, (what, fault, settings, found, case.records())
    for what, pair in (("download", (function, "cuMemcpyDtoHAsync")), ("callback", ("cuMemcpyHtoDAsync", "cuStreamAddCallback"))):
        for fault in (0, 1):
            found = races(case, what, fault)
            assert found == [pair] * fault, (what, fault, found, case.records())


def bytes_that_functions_write(case):
    """Those, and no others, while the function runs: between the host's waits."""
    assert races(case, "part", 1)
    records = case.records()
    base, = re.findall(r"^allocate \d+ pinned address (\w+)", records, re.M)
    wrote, = re.findall(r"^effects .*", records, re.M)
    assert re.findall(r"address (\w+) bytes (\d+)", wrote) == [("%#x" % (int(base, 0) + 77), "1")], wrote


def functions_that_may_not_have(case):
    """Others may have written, or told the function; and memory that cannot be looked at."""
    notes = {"thread": "other threads", "busy": "the device may write", "kernel": "kernels that may tell",
             "unused": "64 MiB of page-locked memory"}
    for what in ("thread", "busy", "kernel", "combined", "shared", "vanishes", "other", "unused"):
        found = races(case, what, 0)
        assert found == [], (what, found, case.records())
        assert what not in notes or notes[what] in case.dump(), (what, case.dump())
    assert races(case, "busy", 1) == [("cuLaunchHostFunc", "cuMemcpyHtoDAsync")]
    assert races(case, "upload", 1, ":host-writes=0") == []


def functions_that_wait(case):
    """What follows a function that waited for the host comes after what the host had waited for."""
    assert races(case, "wakes", 0) == []
    assert races(case, "wakes", 1) == [("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync")]


cases = [functions_that_write, bytes_that_functions_write, functions_that_may_not_have, functions_that_wait]
