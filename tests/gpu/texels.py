#!/usr/bin/env python3
"""Textures and surfaces in all forms that are followed: the texels that the trace of a GPU has are those that the embedded
device performed.

    texels.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary texture_forms --work DIR

texture_forms is tests/instrument/texture_forms.cu. Its traces of both devices must have the same accesses, thread by
thread: by site, and by place in the allocation (an array has none on a GPU, but in the trace). Of what surfaces are given,
the bytes too; what fetches give may differ in the last bits. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import bisect
import collections
import os
import re
import shutil
import subprocess

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "binary", "work"):
    arguments.add_argument("--" + name, required=True)
options = arguments.parse_args()

SITE = re.compile(r"^site \d+:(\d+) (\S+)")
ALLOCATION = re.compile(r"^allocate \d+ \S+ address 0x([0-9a-f]+) bytes (\d+)")
ACCESS = re.compile(r"^access launch (\d+) block (\d+) warp (\d+) site \d+:(\d+) (all lanes|lanes [0-9a-f]+) global (.*)$")


def accesses(trace):
    """By (launch, block, thread), launches in their order: how often which site touched which place; and how many accesses
    of textures and surfaces there are."""
    info = subprocess.run([options.deadheat, "info", "--records", trace], text=True, capture_output=True, timeout=100)
    sites, begins, sizes, launches, texels = {}, [], [], [], 0
    found = collections.defaultdict(collections.Counter)
    for line in info.stdout.splitlines():
        if match := SITE.match(line):
            sites[int(match.group(1))] = match.group(2)
        elif (match := ALLOCATION.match(line)) and " name " not in line:
            begins.append(int(match.group(1), 16))
            sizes.append(int(match.group(2)))
        elif match := ACCESS.match(line):
            launch, block, warp, site = map(int, match.groups()[:4])
            if launch not in launches:
                launches.append(launch)
            mask = ~0 if match.group(5) == "all lanes" else int(match.group(5).split()[1], 16)
            lanes = [lane for lane in range(32) if mask >> lane & 1]
            order = sorted(range(len(begins)), key=begins.__getitem__)
            by_address = [begins[n] for n in order]
            of_texture = re.match(r"tex|tld4|suld|sust", sites[site])
            places = re.sub(r" (?:read|wrote|order) \S+", "", match.group(6))  # of atomic operations
            for lane, touched in zip(lanes, places.split(), strict=True):
                address, _, digest = touched.partition("#")
                at = bisect.bisect_right(by_address, int(address, 16)) - 1
                place = order[at], int(address, 16) - by_address[at]
                assert at >= 0 and place[1] < sizes[order[at]], line[:200]
                bytes_too = digest if sites[site].startswith("sust") else ""
                found[launches.index(launch), block, 32 * warp + lane][site, *place, bytes_too] += 1
                texels += bool(of_texture)
    return found, texels


def difference(mine, theirs):
    for key in sorted(set(mine) | set(theirs)):
        for what in sorted((mine[key] - theirs[key]) | (theirs[key] - mine[key])):
            return "launch %d block %d thread %d: (site, allocation, byte, digest) %s %d times, on the embedded device %d" % (
                *key, what, mine[key][what], theirs[key][what])
    return ""


on_gpu, embedded = (os.path.join(options.work, name) for name in ("texels_gpu", "texels_embedded"))
alone = recording.run([options.binary], dict(os.environ), 60)
recorded = recording.run([options.binary], recording.environment(options.tracer, on_gpu, ":buffer=64"), 120)
claim(alone.returncode == 0 and recorded.returncode == 0, "texture_forms runs, alone and recorded" +
      "".join("\n  " + line for line in (alone.stderr + recorded.stderr).splitlines()[:10]))
claim(alone.stdout == recorded.stdout, "recorded it computes the same: %r, %r" % (alone.stdout, recorded.stdout))
lacks = recording.lost(options.deadheat, on_gpu) + [line for line in recording.said(recorded.stderr) if "not recorded" in line]
claim(not lacks, "nothing is left out" + "".join("\n  " + line for line in lacks))
shutil.rmtree(embedded, ignore_errors=True)
subprocess.run([options.deadheat, "record", "--device", "embedded", "-o", embedded, "--", options.binary],
               capture_output=True, timeout=100)
there, count = accesses(on_gpu)
here, expected = accesses(embedded)
claim(expected and count == expected, "%d accesses of textures and surfaces, on the embedded device %d" % (count, expected))
claim(there == here, "they are the same, and so are all others" + difference(there, here))
end()
