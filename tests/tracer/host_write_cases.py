"""What the host writes into page-locked memory while a copy may still read it (refill_job.cpp)."""
import re


def races(case, what, fault, settings=""):
    report = case.refill(what, fault, settings)
    for race in report["races"]:
        kernels = {race[side]["kernel"] for side in ("first", "second")}
        assert "the host itself" in kernels and race["certainty"] == "certain", (what, fault, race)
    return len(report["races"])


def refills(case):
    """A refill that nothing orders behind the copy is a race with it, however the host is told; one behind is none."""
    for settings in ("", ":accesses=0"):
        for what in ("staging", "wait", "device", "query", "other_stream", "freed", "by_thread", "by_function", "part",
                     "plane", "large", "registered", "download", "filled", "batch", "given_back", "found", "meanwhile", "many", "gap"):
            for fault in (0, 1):
                found = races(case, what, fault, settings)
                assert found == fault, (what, fault, settings, found)


def bytes_of_refills(case):
    """Those that differ, and no others."""
    for what, offset, count in (("part", 8191, 1), ("plane", 5 * 256 + 63, 1), ("registered", 100, 100)):
        assert races(case, what, 1) == 1
        records = case.records()
        base, = re.findall(r"^allocate \d+ pinned address (\w+)", records, re.M)
        written, = re.findall(r" copy h2h to (\S+) from \S+ api the host itself", records)
        assert written == "%#x+%d" % (int(base, 0) + offset, count), (what, base, written)


def refills_that_are_not_certain(case):
    """Others may have written there, or told the host; and memory that cannot be read is left alone."""
    for what in ("downloaded", "mapped", "combined", "vanishes", "captured", "unknown"):
        for fault in (0, 1):
            assert races(case, what, fault) == 0, (what, fault)
        note = {"mapped": "tell each other", "downloaded": "others may write", "combined": "write-combined"}.get(what)
        assert not note or note in case.dump(), (what, case.dump())


def refills_that_nobody_looks_for(case):
    assert races(case, "wait", 1, ":host-writes=0") == 0


cases = [refills, bytes_of_refills, refills_that_are_not_certain, refills_that_nobody_looks_for]
