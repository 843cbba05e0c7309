"""Textures, surfaces and arrays, where kernels run (texture_job.cpp): a race where there is one, and none without."""
import re

from tracer_case import over_embedded

# Who reads, and who writes.
RACES = {"linear": ("fetch_line", "cuMemcpyHtoDAsync"), "plane": ("fetch", "cuMemcpyHtoDAsync"),
         "array": ("fetch", "cuMemcpy3DAsync"), "line": ("fetch_line", "cuMemcpyHtoAAsync"),
         "volume": ("fetch_layer", "cuMemcpy3DAsync"), "graph": ("fetch", "cudaMemcpyAsync"),
         "surface": ("fetch", "store"), "level": ("fetch_level", "cuMemcpy3DAsync"), "again": ("fetch", "cuMemcpy3DAsync")}


def recorded(case, what, fault, settings=""):
    done = case.device(what, str(fault), job="texture_job", settings=settings)
    assert done.returncode == 0 and done.stdout == "done\n", done
    return done.stderr


@over_embedded
def texels(case):
    for what, names in RACES.items():
        for fault in (0, 1):
            said = recorded(case, what, fault)
            assert not said, (what, said)
            report = case.analysis()
            found = [(race["first"]["kernel"], race["second"]["kernel"], race["certainty"]) for race in report["races"]]
            assert found == [(*names, "certain")] * fault, (what, fault, found)
            assert "incident" not in case.records(), (what, case.records()[-2000:])
            case.fresh()


@over_embedded
def array_that_is_made_anew(case):
    """Its memory is another one, and the array that is destroyed is waited for."""
    recorded(case, "gone", 1)
    records = case.records()
    assert not case.analysis()["races"]
    # Two arrays with addresses of their own, both freed.
    arrays = re.findall(r"^allocate (\d+) device address (0x1[0-9a-f]{14}) ", records, re.M)
    assert len(arrays) == 2 and arrays[0][1] != arrays[1][1], arrays
    assert all(re.search(r"^free %s " % number, records, re.M) for number, _ in arrays), records[-3000:]


@over_embedded
def texture_that_nobody_saw(case):
    """What it reads is not known, which is said; it is no race."""
    recorded(case, "early", 1)
    assert not case.analysis()["races"]
    lost = [line for line in case.records().splitlines() if line.startswith("incident")]
    assert len(lost) == 1 and "by texture or surface objects" in lost[0] and " 32 " in lost[0], lost


@over_embedded
def window_with_textures(case):
    """It cannot be run again, and says so in one line."""
    for what, why in (("linear", "a kernel that uses textures or surfaces"), ("array", "an array was copied")):
        said = recorded(case, what, 1, ":window=1")
        lines = [line for line in said.splitlines() if "the window for replay cannot be used" in line]
        assert len(lines) == 1 and why in lines[0], (what, said)
        case.fresh()


cases = [texels, array_that_is_made_anew, texture_that_nobody_saw, window_with_textures]
