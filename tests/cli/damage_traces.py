#!/usr/bin/env python3
"""Recordings of real programs, damaged in every way that a disk, a killed process or a liar can think of.

    damage_traces.py --deadheat bin/deadheat --rewrite tests/cli/rewrite_trace --twins build/tests/programs
                     [--cases N] [--seed S] [--keep DIR] [PROGRAM…]

Each program is recorded, written again in chunks of several sizes, and damaged: cut at every boundary and beside it,
chunks lost, swapped, doubled; bytes flipped, with the checksums as they were or made right again; counts that lie;
records of kinds that nobody knows; records that end in the middle; records that cannot be true. `deadheat analyze` must
then end soon, within memory, with a status as documented; say in lines of its own what is wrong with which log; call
the report incomplete; and accuse nobody of a race that the undamaged recording does not have. Only where the damage
cannot be told from another recording (bytes changed and checksums made right) may races come up.

--cases: how many damaged traces of each kind and recording, chosen by chance where there are more (0: all).
--keep: leaves the damaged logs there that were not answered well. Exit status: 0 all were, 1 not.
"""
import argparse
import collections
import ctypes
import ctypes.util
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

HEADER = struct.Struct("<QHHIIIIIIIQQ")  # trace_format.h, ChunkHeader
FIELDS = ["magic", "version", "kind", "number", "stored", "raw", "records", "accesses", "codec", "reserved", "payload_sum",
          "sum"]
LOG_HEADER_BYTES = 48
EVENTS, END = 1, 6
PROGRAMS = ["shared_reduce.racy", "shared_arrive_early.racy", "shared_async_stages.fixed", "shared_mbarrier.racy",
            "shared_cluster.fixed", "shared_bulk_copy.fixed", "global_last_block_fence.fixed", "global_grid_sync.fixed",
            "global_lock.racy", "stream_graph_fork.racy", "stream_event_again.fixed", "stream_halves.racy",
            "stream_dependent_launch.fixed", "stream_free_second_reader.fixed", "stream_copy_chain.fixed",
            "stream_wrong_event.racy"]
TIME_LIMIT = 5  # seconds of computing, of one analysis of such a little trace
MEMORY_LIMIT = 3 << 30  # bytes of address space
MOST_LINES = 16  # that an analysis may say of one damaged log: nine of places, one of each kind of contradiction

xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t


def checksum(data):
    return xxhash.XXH3_64bits(data, len(data))


class Chunk:
    """A chunk as it lies in the file; raw bytes on demand."""

    def __init__(self, header, stored):
        self.fields, self.stored = dict(zip(FIELDS, header)), stored

    def raw(self):
        if self.fields["codec"] == 0:
            return self.stored
        out = ctypes.create_string_buffer(self.fields["raw"])
        size = zstd.ZSTD_decompress(out, ctypes.c_size_t(len(out)), self.stored, ctypes.c_size_t(len(self.stored)))
        assert size == self.fields["raw"]
        return out.raw

    def bytes(self):
        header = HEADER.pack(*[self.fields[name] for name in FIELDS])
        return header + self.stored

    def changed(self, payload=None, right=True, **fields):
        """Another chunk: with this raw payload, these fields, and checksums that fit (or not)."""
        out = Chunk([self.fields[name] for name in FIELDS], self.stored)
        if payload is not None:
            out.stored = payload
            out.fields.update(stored=len(payload), raw=len(payload), codec=0)
        out.fields.update(fields)
        if right:
            out.fields["payload_sum"] = checksum(out.stored)
            out.fields["sum"] = checksum(HEADER.pack(*[out.fields[name] for name in FIELDS])[:48])
        return out


class Log:
    def __init__(self, data):
        self.data, self.head, self.chunks = data, data[:LOG_HEADER_BYTES], []
        at = LOG_HEADER_BYTES
        while at < len(data):
            header = HEADER.unpack_from(data, at)
            stored = header[FIELDS.index("stored")]
            self.chunks.append(Chunk(header, data[at + HEADER.size:at + HEADER.size + stored]))
            at += HEADER.size + stored

    def boundaries(self):
        at = LOG_HEADER_BYTES
        places = [0, 8, 40, at]
        for chunk in self.chunks:
            places += [at + 8, at + 40, at + HEADER.size, at + HEADER.size + len(chunk.stored)]
            at += HEADER.size + len(chunk.stored)
        return places

    def with_chunks(self, chunks):
        return self.head + b"".join(chunk.bytes() for chunk in chunks)

    def with_chunk(self, number, chunk):
        return self.with_chunks(self.chunks[:number] + [chunk] + self.chunks[number + 1:])


# honest: the report may call itself complete; keeps: all races must still be there.
Case = collections.namedtuple("Case", "name data honest may_accuse keeps", defaults=[False])


def cuts(log, positions, chance):
    places = {place + by for place in log.boundaries() for by in (-1, 0, 1)} - {len(log.data)}
    places |= {chance.randrange(len(log.data)) for _ in range(40)}
    all_records = len(log.data) - HEADER.size - len(log.chunks[-1].stored)  # before the end chunk
    for place in sorted(places):
        if 0 <= place < len(log.data):
            yield Case("cut at byte %d" % place, log.data[:place], False, False, place >= all_records)


def holes(log, positions, chance):
    for _ in range(60):
        begin = chance.randrange(len(log.data))
        end = min(len(log.data), begin + chance.choice([1, 7, 60, 500, 5000]))
        yield Case("bytes %d to %d missing" % (begin, end), log.data[:begin] + log.data[end:], False, False)
        yield Case("bytes %d to %d zero" % (begin, end), log.data[:begin] + bytes(end - begin) + log.data[end:],
                   not any(log.data[begin:end]), False)


def chunks_missing(log, positions, chance):
    last = len(log.chunks) - 1
    for number in range(last):
        yield Case("chunk %d missing" % number, log.with_chunks(log.chunks[:number] + log.chunks[number + 1:]), False, False)
    for _ in range(last):
        begin = chance.randrange(last)
        end = chance.randrange(begin, last) + 1
        yield Case("chunks %d to %d missing" % (begin, end - 1), log.with_chunks(log.chunks[:begin] + log.chunks[end:]),
                   False, False)
        kept = [chunk for chunk in log.chunks[:last] if chance.random() < 0.6] + log.chunks[last:]
        if len(kept) <= last:
            yield Case("%d of %d chunks missing" % (len(log.chunks) - len(kept), len(log.chunks)), log.with_chunks(kept), False,
                       False)


def chunks_moved(log, positions, chance):
    last = len(log.chunks) - 1
    for number in range(last):
        twice = log.chunks[:number + 1] + log.chunks[number:]
        yield Case("chunk %d twice" % number, log.with_chunks(twice), False, False)
        again = log.chunks[:last] + [log.chunks[number]] + log.chunks[last:]
        yield Case("chunk %d again at the end" % number, log.with_chunks(again), False, False)
        if number + 1 < last:
            swapped = list(log.chunks)
            swapped[number], swapped[number + 1] = swapped[number + 1], swapped[number]
            yield Case("chunks %d and %d swapped" % (number, number + 1), log.with_chunks(swapped), False, False)
    for _ in range(last):
        shuffled = log.chunks[:last]
        chance.shuffle(shuffled)
        if shuffled != log.chunks[:last]:
            yield Case("chunks in the order %s" % [log.chunks.index(chunk) for chunk in shuffled],
                       log.with_chunks(shuffled + log.chunks[last:]), False, False)


def flips(log, positions, chance):
    for _ in range(150):
        place = chance.randrange(len(log.data))
        changed = bytearray(log.data)
        changed[place] ^= 1 << chance.randrange(8)
        yield Case("a bit of byte %d flipped" % place, bytes(changed), False, False)


def right_flips(log, positions, chance):
    """What nothing gives away: the checksums are right."""
    for _ in range(300):
        number = chance.randrange(len(log.chunks))
        raw = bytearray(log.chunks[number].raw())
        if not raw:
            continue
        for _ in range(chance.choice([1, 1, 1, 2, 8])):
            place = chance.randrange(len(raw))
            raw[place] ^= 1 << chance.randrange(8)
        yield Case("chunk %d, byte %d changed, checksums right" % (number, place),
                   log.with_chunk(number, log.chunks[number].changed(bytes(raw))), True, True)


def counts(log, positions, chance):
    """Headers that lie about their chunks, with right checksums."""
    for number, chunk in enumerate(log.chunks):
        for field in ("records", "accesses", "raw", "stored", "number", "kind", "codec", "version", "reserved"):
            old = chunk.fields[field]
            top = 0xFFFF if field in ("kind", "version") else 0xFFFFFFFF
            for value in {0, 1, old + 1, old - 1, 9, 1 << 15, top} - {old}:
                if not 0 <= value <= top:
                    continue
                if field in ("records", "accesses") and chunk.fields["kind"] != EVENTS:
                    continue  # which have none
                if field == "codec" and chunk.fields["raw"] == chunk.fields["stored"] and value == 0:
                    continue
                yield Case("chunk %d says %s %d instead of %d" % (number, field, value, old),
                           log.with_chunk(number, chunk.changed(**{field: value})), field == "reserved", False)
    end = log.chunks[-1]
    raw = bytearray(end.raw())
    for place, size in ((0, 8), (8, 8), (16, 8), (32, 4)):  # EndChunk: records, accesses, lost records, chunks
        old = int.from_bytes(raw[place:place + size], "little")
        for value in {0, old + 1, old - 1, (1 << (8 * size)) - 1} - {old}:
            if value < 0:
                continue
            changed = bytearray(raw)
            changed[place:place + size] = value.to_bytes(size, "little")
            yield Case("the end chunk's bytes %d say %d instead of %d" % (place, value, old),
                       log.with_chunk(len(log.chunks) - 1, end.changed(bytes(changed))), False, False)


def unknown_kinds(log, positions, chance):
    """Records of a later version: framed ones can be passed over."""
    for number, place in positions:
        raw = bytearray(log.chunks[number].raw())
        if raw[place] >= 64:
            continue
        kind, raw[place] = raw[place], 62
        yield Case("chunk %d, byte %d: a record of kind 62 instead of %d" % (number, place, kind),
                   log.with_chunk(number, log.chunks[number].changed(bytes(raw))), False, False)


def ended_records(log, positions, chance):
    """Chunks whose payload ends, or makes no sense, in the middle, and whose headers say that this is right."""
    for number, place in positions:
        raw = log.chunks[number].raw()
        if place + 1 >= len(raw):
            continue
        yield Case("chunk %d ends at byte %d" % (number, place + 1),
                   log.with_chunk(number, log.chunks[number].changed(raw[:place + 1])), False, False)
        yield Case("chunk %d makes no sense at byte %d" % (number, place),
                   log.with_chunk(number, log.chunks[number].changed(raw[:place] + b"\x7f" + raw[place + 1:])), False, False)


KINDS = [cuts, holes, chunks_missing, chunks_moved, flips, right_flips, counts, unknown_kinds, ended_records]


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT, TIME_LIMIT))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def analyze(deadheat, trace, jobs=1):
    """(status, report, lines, seconds); the status is None where the time limit struck."""
    def computed():
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime
    begin = computed()
    done = subprocess.run([deadheat, "analyze", "--json", "-", "--jobs", str(jobs), trace], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = None
    status = None if done.returncode == -signal.SIGXCPU else done.returncode
    return status, report, done.stderr.decode(errors="replace").splitlines(), computed() - begin


def side_key(side):
    return (side["op"], side["kernel"], side["file"], side["line"],
            tuple((frame["file"], frame["line"]) for frame in side["inlined"]))


def race_keys(report):
    """What a race accuses: the two places, and of what, whichever comes first."""
    return {(race["level"], race["certainty"]) + tuple(sorted(map(side_key, (race["first"], race["second"])), key=str))
            for race in report["races"]}


def complaint(case, known, answer, log_name):
    """What is wrong with the answer; None when nothing is."""
    status, report, lines, seconds = answer
    if status is None:
        return "no end within %d s" % TIME_LIMIT
    if status not in (0, 1, 2):
        return "status %d" % status
    if len(lines) > MOST_LINES:
        return "%d lines" % len(lines)
    strange = [line for line in lines if not line.startswith("deadheat: ")]
    if strange:
        return "says '%s'" % strange[0][:120]
    if status == 2:
        if report is not None:
            return "status 2 and a report"
        if len(lines) != 1 or log_name not in lines[0]:
            return "status 2 and the lines %s" % lines
        return None
    if report is None:
        return "status %d and no report" % status
    counted = [race for race in report["races"] if race["certainty"] == "certain" and race["class"] == "data"]
    if status != (1 if counted else 0):
        return "status %d with %d races" % (status, len(counted))
    if report["summary"]["complete"] and not case.honest:
        return "the report calls itself complete"
    if not report["summary"]["complete"] and not (lines and all(log_name in line for line in lines)):
        return "incomplete, and not one line each that names the log: %s" % lines
    more = race_keys(report) - known
    if more and not case.may_accuse:
        return "accuses %r" % (sorted(more, key=str)[0],)
    if case.keeps and race_keys(report) != known:
        return "hides %r" % (sorted(known - race_keys(report), key=str)[0],)
    return None


class Recording:
    """A program's log in chunks of some size, and what is known of it."""

    def __init__(self, options, program, chunk_bytes, work):
        self.name = "%s in chunks of %s" % (program, chunk_bytes or "1 MiB")
        recorded = os.path.join(work, program)
        if not os.path.exists(recorded):
            subprocess.run([options.deadheat, "record", "-o", recorded, "--", os.path.join(options.twins, program)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        [name] = [name for name in os.listdir(recorded) if name.endswith(".log")]
        self.directory, self.log_name = os.path.join(work, "trace"), name
        shutil.rmtree(self.directory, ignore_errors=True)
        if chunk_bytes:
            subprocess.run([options.rewrite, "chunks", os.path.join(recorded, name), self.directory, str(chunk_bytes)],
                           check=True)
            if os.path.isdir(os.path.join(recorded, "blobs")):
                shutil.copytree(os.path.join(recorded, "blobs"), os.path.join(self.directory, "blobs"),
                                dirs_exist_ok=True)
        else:
            shutil.copytree(recorded, self.directory)
        self.path = os.path.join(self.directory, name)
        with open(self.path, "rb") as file:
            self.log = Log(file.read())
        out = subprocess.run([options.rewrite, "positions", self.path], check=True, stdout=subprocess.PIPE).stdout
        events = [number for number, chunk in enumerate(self.log.chunks) if chunk.fields["kind"] == EVENTS]
        self.positions = [(events[int(line.split()[0])], int(line.split()[1])) for line in out.decode().splitlines()]
        status, report, lines, _ = analyze(options.deadheat, self.directory)
        if status not in (0, 1) or lines or not report["summary"]["complete"]:
            raise SystemExit("%s cannot be analysed: status %s, %s" % (self.name, status, lines))
        self.known = race_keys(report)

    def answer(self, options, data, jobs=1):
        with open(self.path, "wb") as file:
            file.write(data)
        return analyze(options.deadheat, self.directory, jobs)


def lies(options, recording, work, chance):
    """Records that cannot be true, written again with everything else in its place."""
    names = subprocess.run([options.rewrite, "lies"], check=True, stdout=subprocess.PIPE).stdout.decode().split()
    honest_log = os.path.join(work, "honest.log")
    with open(honest_log, "wb") as file:
        file.write(recording.log.data)
    for name in names:
        for number in range(options.cases or 6):
            changed = os.path.join(work, "lie")
            shutil.rmtree(changed, ignore_errors=True)
            said = subprocess.run([options.rewrite, "lie", honest_log, changed, "1048576", name, str(chance.randrange(1000))],
                                  check=True, stdout=subprocess.PIPE).stdout.decode().strip()
            if not said:
                break
            [log] = os.listdir(changed)
            with open(os.path.join(changed, log), "rb") as file:
                yield Case("%s: %s" % (name, said), file.read(), name in HONEST_LIES, name in UNSEEN_LIES)


# Lies after which a report may call itself complete, and ones that make another recording of it.
HONEST_LIES = {"allocation-over-another"}
UNSEEN_LIES = {"allocation-everywhere", "allocation-over-another", "two-of-one-id"}


class Statistics:
    def __init__(self):
        self.tried, self.bad, self.slowest, self.kept, self.had = collections.Counter(), [], (0, ""), 0, 0

    def note(self, recording, kind, case, answer, problem):
        self.tried[kind] += 1
        if answer[3] > self.slowest[0]:
            self.slowest = (answer[3], "%s, %s" % (recording.name, case.name))
        if answer[1] and not case.may_accuse:
            self.kept += len(race_keys(answer[1]) & recording.known)
            self.had += len(recording.known)
        if problem:
            self.bad.append("%s, %s: %s" % (recording.name, case.name, problem))


def attack(options, recording, work, chance, statistics):
    sources = [(make.__name__, make(recording.log, recording.positions, chance)) for make in KINDS]
    sources.append(("lies", lies(options, recording, work, chance)))
    for kind, cases in sources:
        if options.kinds and kind not in options.kinds:
            continue
        cases = list(cases)
        if options.cases and len(cases) > options.cases:
            cases = chance.sample(cases, options.cases)
        for case in cases:
            answer = recording.answer(options, case.data, chance.choice([1, 1, 3]))
            problem = complaint(case, recording.known, answer, recording.log_name)
            statistics.note(recording, kind, case, answer, problem)
            if problem and options.keep:
                folder = os.path.join(options.keep, "%03d" % len(statistics.bad))
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(recording.directory, folder)
                print("%s: %s" % (folder, statistics.bad[-1]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, type=os.path.abspath)
    parser.add_argument("--rewrite", required=True, type=os.path.abspath, help="rewrite_trace of this folder")
    parser.add_argument("--twins", required=True, type=os.path.abspath, help="compiled tests/programs")
    parser.add_argument("--cases", type=int, default=0, help="of each kind and recording; 0: all")
    parser.add_argument("--chunks", type=int, nargs="*", default=[0, 2000, 200, 40], help="sizes in bytes; 0: as recorded")
    parser.add_argument("--kinds", nargs="*", default=[], help="kinds of damage: " + ", ".join(k.__name__ for k in KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=os.path.abspath)
    parser.add_argument("programs", nargs="*", default=[])
    options = parser.parse_args()
    chance, statistics = random.Random(options.seed), Statistics()
    with tempfile.TemporaryDirectory() as work:
        for program in options.programs or PROGRAMS:
            for chunk_bytes in options.chunks:
                attack(options, Recording(options, program, chunk_bytes, work), work, chance, statistics)
    print("%d damaged traces: %s" % (sum(statistics.tried.values()),
                                     ", ".join("%s %d" % pair for pair in statistics.tried.items())))
    print("races still reported: %d of %d; slowest: %.2f s (%s)" % ((statistics.kept, statistics.had) + statistics.slowest))
    for line in statistics.bad[:60]:
        print("BAD " + line)
    print("%d answered badly" % len(statistics.bad))
    return 1 if statistics.bad else 0


if __name__ == "__main__":
    sys.exit(main())
