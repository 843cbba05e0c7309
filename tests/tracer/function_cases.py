"""What host functions write into page-locked memory, beside a driver that runs them on threads of its own
(function_job.cpp)."""
import re


def races(case, what, fault, settings=""):
    report = case.refill(what, fault, settings, job="function_job")
    for race in report["races"]:
        assert race["certainty"] == "certain" and report["summary"]["complete"], (what, fault, report)
    return [tuple(sorted(race[side]["kernel"] for side in ("first", "second"))) for race in report["races"]]


def seen(case, what, settings=""):
    """Of a race that is there. On a machine that is busy the function may not be alone, or begin too late."""
    for _ in range(8):
        found = races(case, what, 1, settings)
        if found:
            break
    return found


def functions_that_write(case):
    """What a function writes is its operation's: a race with copies that nothing orders with it, and told once."""
    function, upload = "cuLaunchHostFunc", "cuMemcpyHtoDAsync"
    pair = (function, upload)
    for settings in ("", ":accesses=0"):
        for what in ("upload", "early", "kept", "late", "spins", "part", "registered", "budget", "within", "learned"):
            found = races(case, what, 0, settings)
            assert found == [], (what, settings, found, case.records())
            found = seen(case, what, settings)
            assert found == [pair], (what, settings, found, case.records())
    for what, pair in (("download", (function, "cuMemcpyDtoHAsync")), ("callback", ("cuMemcpyHtoDAsync", "cuStreamAddCallback"))):
        assert races(case, what, 0) == [], (what, case.records())
        assert seen(case, what) == [pair], (what, case.records())


def bytes_that_functions_write(case):
    """Those, and no others, while the function runs: between the host's waits."""
    assert seen(case, "part")
    records = case.records()
    base, = re.findall(r"^allocate \d+ pinned address (\w+)", records, re.M)
    wrote, = re.findall(r"^effects .*", records, re.M)
    assert re.findall(r"address (\w+) bytes (\d+)", wrote) == [("%#x" % (int(base, 0) + 77), "1")], wrote


def functions_that_may_not_have(case):
    """Others may have written, or told the function; and memory that cannot be looked at."""
    notes = {"thread": "other threads", "woken": "other threads", "busy": "the device may write", "copied": "the device may write", "kernel": "kernels that may tell",
             "unused": "64 MiB of page-locked memory"}
    for what in ("thread", "woken", "busy", "kernel", "combined", "shared", "vanishes", "other", "sleeps", "copied", "unused"):
        found = races(case, what, 0)
        assert found == [], (what, found, case.records())
        assert what not in notes or notes[what] in case.dump(), (what, case.dump())
    assert seen(case, "busy") == [("cuLaunchHostFunc", "cuMemcpyHtoDAsync")]
    assert races(case, "upload", 1, ":host-writes=0") == []


def functions_that_wait(case):
    """What follows a function that waited for the host comes after what the host had waited for."""
    assert races(case, "wakes", 0) == []
    assert races(case, "wakes", 1) == [("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync")]


cases = [functions_that_write, bytes_that_functions_write, functions_that_may_not_have, functions_that_wait]
