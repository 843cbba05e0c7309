"""A naive second opinion on the order of kernels' accesses: which of a recorded run conflict unordered?

It reads what `deadheat info --records` prints, and shares nothing with the analyzer. What comes before what is
launch_relation.py's affair.
"""
import gc
import os
import re
import sys
import time

import ptx_outcomes
import stream_oracle
from launch_relation import Device
from launch_threads import Launch, Site, Unknown, block_of, mask_of, numbered

MOST_ACCESSES = 10_000_000  # of lanes


class Records(Device):
    """Told of what happens by records: `HEAD launch L block B warp W site M:N MASK …`, split into words; some have no warp
    or no site."""

    def threads_of(self, word, mask_at=9):
        """(block, warp, threads, index of the word behind the mask)"""
        block, warp = block_of(word), int(word[6])
        mask, at = mask_of(word, mask_at)
        return block, warp, self.lanes(block, warp, mask), at

    def read_access(self, word):
        """How many threads make it."""
        block, _, threads, at = self.threads_of(word)
        space, at = word[at], at + 1
        site = self.sites[word[8]]
        if threads and not site.strong and len(word) == at + len(threads):  # weak, and so without values
            addresses = [int(text.split("#")[0], 16) for text in word[at:]]
            self.touch_weakly(threads, space, addresses, word[8])
            if site.access != "read" and self.writes:
                for address in addresses:
                    self.write_weakly(self.place(space, block, address) + (site.size,))
            return len(threads)
        for thread in threads:
            address = int(word[at].split("#")[0], 16)
            at += 1
            values = None
            if at < len(word) and word[at] == "read":
                read, wrote, at = int(word[at + 1], 16), None, at + 2
                if word[at] == "wrote":
                    wrote, at = int(word[at + 1], 16), at + 2
                values, at = (read, wrote), at + 2  # order N
            self.access(thread, word[8], space, address, values)
        return len(threads)

    def read_exit(self, word):
        self.exited.update(thread.name for thread in self.threads_of(word, 7)[2])
        self.exited_of.add(block_of(word))

    def read_fence(self, word):
        block, warp, threads, at = self.threads_of(word)
        opcode, mask = self.sites[word[8]].opcode, mask_of(word, 9)[0]
        if "::generic." in opcode:  # of one direction (9.7.13.4): it releases or acquires, and only the former makes visible
            if ".async::" not in opcode:
                self.fence(block, warp, mask, word[at], word[at + 1])
                return
            if ".release" in opcode:
                self.proxy_fence(threads, ["shared"])
            self.restricted_fence(threads, word[at], word[at + 1], False)
        elif word[at + 2] != "generic":
            spaces = [space for space in ("shared", "global") if space in opcode] or ["shared", "global"]
            self.proxy_fence(threads, spaces)
        elif ".mbarrier_init" in opcode or ".sync_restrict" in opcode:
            self.restricted_fence(threads, word[at], word[at + 1], ".mbarrier_init" in opcode)
        elif word[at] == "weak":  # griddepcontrol.wait
            self.dependency_wait(threads)
        else:
            self.fence(block, warp, mask, word[at], word[at + 1])

    def read_heap_block(self, word):
        """A kernel was given memory by malloc: whoever had it before is done with it ([c.malloc])."""
        self.forget(int(word[word.index("address") + 1], 16), int(word[word.index("bytes") + 1]))

    def read_heap_free(self, word):
        """A kernel gives memory back: as good as a write of all of it."""
        block, linear = block_of(word), int(word[word.index("thread") + 1])
        thread = self.thread(block, linear)
        self.touch(thread.name, block, thread.seen, thread.epoch, "global", int(word[word.index("address") + 1], 16),
                   int(word[word.index("bytes") + 1]), "write", False, "none", word[word.index("site") + 1])

    def read_warp_barrier(self, word):
        self.meet(self.threads_of(word)[2])

    def read_block_barrier(self, word):
        threads = [thread for thread in self.of_block(block_of(word)) if thread.name not in self.exited]
        self.meet(threads)
        for thread in threads:
            thread.met += 1

    def read_barrier_arrive(self, word):
        block, _, threads, at = self.threads_of(word)
        arrived, waiting = self.barriers.setdefault((block, int(word[at + 1]), int(word[at + 3])), ([], []))
        arrived += [thread.publish() for thread in threads]
        waiting += threads if word[at + 4] == "sync" else []

    def read_barrier_complete(self, word):
        arrived, waiting = self.barriers.pop((block_of(word), int(word[6]), int(word[8])), ([], []))
        for thread in waiting:
            thread.sees(*arrived)

    def read_cluster_barrier(self, word):
        block, warp, _, at = self.threads_of(word)
        self.cluster_barrier(block, warp, mask_of(word, 9)[0], word[at] == "wait", int(word[at + 2]), "relaxed" in word[at:])

    def read_async_copy(self, word):
        block, warp, threads, at = self.threads_of(word)
        size = int(word[at + 1])
        at += 2
        for thread in threads:
            destination, source = (int(text, 16) for text in word[at].split("<-"))
            at, source_size = at + 1, size
            if at < len(word) and word[at] == "read":
                at, source_size = at + 2, int(word[at + 1])
            self.copy(block, warp, thread.name[1] % 32, word[8], size, destination, source, source_size)

    def read_async_commit(self, word):
        opcode = self.sites[word[8]].opcode
        if opcode.startswith("wgmma"):
            self.commit_products(self.threads_of(word)[2])
        else:
            self.commit(self.threads_of(word)[2], ".bulk" in opcode)

    def read_async_wait(self, word):
        _, _, threads, at = self.threads_of(word)
        if self.sites[word[8]].opcode.startswith("wgmma"):
            self.await_products(threads, int(word[at + 1]))
        elif ".bulk" in self.sites[word[8]].opcode:
            self.bulk_wait(threads, int(word[at + 1]), "read" in word[at:])
        else:
            self.wait(threads, int(word[at + 1]), "all" in word[at:])

    def read_mbarrier(self, word):
        block, warp, threads, at = self.threads_of(word)
        what, ordering, scope, of_block = word[at], word[at + 1], word[at + 2], numbered(word, int(word[at + 4]))
        succeeded = int(word[at + 6], 16)
        at += 7
        for thread in threads:
            lane = thread.name[1] % 32
            self.mbarrier(block, warp, what, word[8], ordering, of_block, scope, lane, int(word[at], 16),
                          int(word[at + 4]), succeeded >> lane & 1)
            at += 5

    def read_bulk_copy(self, word):
        block, warp, threads, at = self.threads_of(word)
        at += word[at] == "further"
        for thread in threads:
            destination, source = (int(text, 16) for text in word[at].split("<-"))
            size, at, object_at = int(word[at + 2]), at + 3, 0
            if at < len(word) and word[at] == "mbarrier":
                object_at, at = int(word[at + 1], 16), at + 2
            if self.sites[word[8]].opcode.startswith("wgmma"):
                self.product(thread, word[8], source, size)
            else:
                self.bulk_copy(block, warp, thread.name[1] % 32, word[8], source, destination, size, object_at)


def extent(line, name):
    match = re.search(r"\b%s (\d+)x(\d+)x(\d+)" % name, line)
    return tuple(int(group) for group in match.groups()) if match else (1, 1, 1)


def unordered_conflicts(lines, seconds=60, kernel="", ptx=""):
    """Of launches of that kernel, as people write it, or of all (of one kernel alone, what others hand on is not seen).
    ptx: the folder of the modules' PTX, without which every wait counts as looked at. {(launch, other's launch, one,
    other, owner, word, what one does, what the other does): {(site, site)}}; raises Unknown, also when it takes longer
    than `seconds` of a core, or when the records warn that some of them are lost."""
    deadline = time.process_time() + seconds
    sites, numbers, launches, listed, devices = {}, {}, {}, [], {}
    device, operations = Records(sites), stream_oracle.Operations()
    accesses = records = 0
    for line in lines:
        if accessed := re.match(r"(?!site )\S+ launch (\d+) ", line):
            if int(accessed.group(1)) not in device.launches:
                continue  # without a look at the rest
        word = line.split()
        if not word:
            continue
        head = word[0]
        if head == "site":
            sites[word[1]] = Site(word)
            listed.append(line)
            continue
        if listed:
            for name, says in ptx_outcomes.unused_sites(listed, ptx).items() if ptx else ():
                sites[name].says_unused = says
            listed = []
        if head == "warning:":
            raise Unknown("the trace is not whole: " + line)
        if head == "stream":
            of = re.search(r"\bdevice (\d+)", line)
            devices[word[1]] = int(of.group(1)) if of else 0
        if head in ("stream", "graph_launch", "operation", "begin", "end", "stream_wait", "host_wait", "free"):
            operations.read(word, line)
        if head == "operation" and " launch " in line and " kernel " in line:
            number = int(re.search(r"\blaunch (\d+)", line).group(1))
            if not kernel or " kernel %s module " % kernel in line:
                block = extent(line, "block")
                numbers[int(word[1])] = number
                stream = re.search(r"\bstream (\d+)", line)
                where = None if " graph_launch " in line else devices.get(stream and stream.group(1), 0)
                launches[number] = Launch(int(word[1]), block[0] * block[1] * block[2], extent(line, "grid"),
                                          extent(line, "cluster"), where)
        elif head in ("begin", "end") and int(word[2]) in numbers:
            number = numbers[int(word[2])]
            if head == "begin":
                device.begin(number, launches[number], operations, numbers)
            else:
                device.end(number)
        elif len(word) >= 5 and word[1] == "launch" and int(word[2]) in device.launches:
            read = getattr(device, "read_" + head, None)
            accesses += read(word) or 0 if read else 0
            records += 1
            if accesses > MOST_ACCESSES or (records % 256 == 0 and time.process_time() > deadline):
                raise Unknown("too many accesses")
    return device.pairs


def main():
    """Reads records from standard input; --kernel NAME: of its launches only; --ptx FOLDER: what it ran. --pairs prints
    one pair of accesses a line, and exits with status 3 when there is nothing to say; without it, pairs of sites, which
    is what people ask for when two opinions differ."""
    kernel = sys.argv[sys.argv.index("--kernel") + 1] if "--kernel" in sys.argv else ""
    ptx = sys.argv[sys.argv.index("--ptx") + 1] if "--ptx" in sys.argv else ""
    pairs_only = "--pairs" in sys.argv
    if sys.implementation.name == "cpython":
        gc.disable()  # nothing here goes round in circles
    lines = (line.rstrip("\n") for line in sys.stdin)
    place = {}
    if not pairs_only:
        lines = list(lines)
        place = {line.split()[1]: line for line in lines if line.startswith("site ")}
    try:
        conflicts = unordered_conflicts(lines, 600 if pairs_only else 3600, kernel, ptx)
    except Unknown as reason:
        print(reason, file=sys.stderr)
        return 3
    if pairs_only:
        for pair in conflicts:
            print(pair)
        return 0
    by_site = {}
    for pair, sites in conflicts.items():
        for names in sites:
            by_site.setdefault(names, []).append(pair)
    for names, pairs in sorted(by_site.items()):
        print("%d pairs, such as %s\n  %s\n  %s" % (len(pairs), pairs[0], place[names[0]], place[names[1]]))
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # without taking apart what it made
