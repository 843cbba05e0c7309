#!/usr/bin/env python3
"""Lists the algorithms of CUB and Thrust that no program of real/ names, by the headers of the toolkit at hand.

    library_coverage.py [--headers /usr/local/cuda/include/cccl] [--all]

An algorithm counts as run when a program that names its class (CUB) or its namespace (Thrust) names it. Overloads count
as one, and what a header keeps to itself does not count: INTERNAL. Prints one line a missing algorithm, with --all one
line each. Exit status: 0 all are run, 1 some are not, 77 without the headers.
"""
import argparse
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Not algorithms: what headers use inside, constructors' helpers, and what handles storage rather than elements.
INTERNAL = {
    "cub": """PrivateStorage FlagT InternalLoadDirectBlockedVectorized LoadInternal StoreInternal MergePath SerialMerge
        SyncImplementation get_linear_tid Sync Upsweep ExclusiveDownsweep ResetCounters ScanCounters CallBack Digit
        ThreadBin ComputeHistogramsWarp ComputeOffsetsWarpUpsweep ComputeOffsetsWarpDownsweep ComputeRanksItem
        BlockRadixRankMatchInternal match_any operator SortBlocked ExchangeValues StaticUpperBound InitWithRunOffsets
        InitWithRunLengths BlockMergeSortStrategy InternalWarpReduce SegmentedReduce get_member_mask for_each_n
        custom_radix_sort segmented_reduce load_transform_direct_striped to_array is_aligned PlacementPtr RakingPtr
        BlockAdjacentDifference::FlagHeads BlockAdjacentDifference::FlagTails BlockRadixSort::RankKeys
        DeviceAdjacentDifference::AdjacentDifference""".split(),
    "thrust": """next prev distance malloc free get_temporary_buffer return_temporary_buffer get_per_device_resource
        device_vector host_vector erase assign""".split(),
}


def text_of(path):
    with open(path) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def classes_of(text):
    """(where it begins, name) of each class in a header of CUB."""
    pattern = r"\b(?:struct|class)\s+((?:Device|Block|Warp)\w+)\s*(?:\{|:\s*(?:public|private)?)"
    return [(match.start(), match.group(1)) for match in re.finditer(pattern, text)]


def cub_algorithms(root):
    """(class or '', algorithm), each once."""
    found = {}
    for path in sorted(path for folder in ("device", "block", "warp") for path in glob.glob(root + "/cub/%s/*.cuh" % folder)):
        if path.endswith("radix_rank_sort_operations.cuh"):
            continue
        text = text_of(path)
        classes = classes_of(text)
        runs_on = "CUB_RUNTIME_FUNCTION" if "/device/" in path else "_CCCL_DEVICE"
        for match in re.finditer(runs_on + r"\s[^;{}()]*?(\w+)\s*\(", text):
            name = match.group(1)
            owners = [owner.replace("Strategy", "") for begin, owner in classes
                      if begin < match.start() and not re.search(r"Internal$|Callback$", owner)]
            free = re.match(r"(Load|Store)Direct", name)  # functions beside the classes
            owner = "" if free or not owners else owners[-1]
            if not {name, owner + "::" + name} & set(INTERNAL["cub"]) and not name.endswith("NoNVTX") and name != owner:
                found[(owner, name)] = None
    return list(found)


def thrust_algorithms(root):
    names = {}
    declaration = (r"^\s*(?:_CCCL_HOST_DEVICE\s+)?(?:typename\s+)?[\w:<>, ]+?[\s&*]+(\w+)\s*\(\s*(?:const\s+)?"
                   r"(?:thrust::detail::execution_policy_base|\w*Iterator\w*\s+\w+)")
    for path in sorted(glob.glob(root + "/thrust/*.h")):
        for match in re.finditer(declaration, text_of(path), flags=re.M):
            if match.group(1) not in INTERNAL["thrust"]:
                names[match.group(1)] = None
    return list(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headers", default=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include/cccl")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if not os.path.isdir(arguments.headers + "/cub"):
        print("SKIP library_coverage: no CUB below %s" % arguments.headers)
        return 77
    programs = {os.path.basename(path): text_of(path) for path in glob.glob(HERE + "/real/*.cu")}

    def users(owner, name):
        return sorted(program for program, text in programs.items()
                      if re.search(r"\b%s\b" % owner, text) and re.search(r"\b%s\b" % name, text))

    algorithms = [("cub::" + (owner + "::" if owner else "") + name, users(owner or "cub", name))
                  for owner, name in cub_algorithms(arguments.headers)]
    algorithms += [("thrust::" + name, users("thrust::" + name, name)) for name in thrust_algorithms(arguments.headers)]
    missing = [name for name, by in algorithms if not by]
    for name, by in algorithms:
        if arguments.all or not by:
            print("%s: %s" % (name, " ".join(by) or "no program"))
    print("%s library_coverage: %d of %d algorithms are run" %
          ("FAIL" if missing else "PASS", len(algorithms) - len(missing), len(algorithms)))
    return 1 if missing or len(algorithms) < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
