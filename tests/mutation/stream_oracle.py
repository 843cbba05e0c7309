"""A naive second opinion on the order of operations: does a recorded run have two operations that touch the same word, one
of them writing, and that no rule of CUDA's streams orders?

It reads what `deadheat info --records` prints, and shares nothing with the analyzer: every rule is one edge between two
operations, and the closure is computed bluntly. Accesses count as the 4-byte words that they begin in; races inside a
launch are not looked at. A programmatic dependent launch is ordered like any other when its threads wait; None when they
do not, since which accesses come before is not modelled here, and when records are lost.

Rules (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; Runtime API, "Stream synchronization behavior"):
work of one stream in the order of submission; the legacy stream and every blocking stream in that order too; an event's
record before what a stream does after it waits for that; whatever the host waited for before what it submits then;
nodes of a graph after those that they depend on, and all of them as one piece of work of the stream.
"""
import collections
import re

WORD = 4
READ, WRITE, STRONG = 1, 2, 4


class Operations:
    def __init__(self):
        self.before = {}  # operation → set of operations that come before it
        self.words = collections.defaultdict(dict)  # operation → word → what it does there
        self.stream, self.graph = {}, {}

    def edge(self, first, second):
        self.before[second] |= self.before[first] | {first}


def words_of(text, memory):
    """The words of a range as records print it, as far as it lies in memory that the device may touch."""
    match = re.match(r"0x([0-9a-f]+)\+(\d+)(?:x(\d+)x(\d+) pitch (\d+))?", text)
    begin, width = int(match.group(1), 16), int(match.group(2))
    rows, pitch = int(match.group(3) or 1), int(match.group(5) or 0)
    for row in range(rows):
        at = begin + row * pitch
        if any(low <= at < high for low, high in memory):
            yield from range(at // WORD, (at + width + WORD - 1) // WORD)


def unordered_conflicts(records):
    """[(operation, operation)] that conflict and are not ordered; None when that is not decided here."""
    found = Operations()
    kinds = {1: "legacy"}
    waits = collections.defaultdict(set)  # stream → operations that it waits for from now on
    host = set()  # operations that the host has waited for
    allocations, launches, graph_stream = {}, {}, {}

    def field(line, name):
        match = re.search(r"\b%s (\S+)" % name, line)
        return match.group(1) if match else None

    def blocking(stream):
        return kinds.get(stream, "blocking") != "non_blocking"

    def in_order(first, second):  # of two streams, by themselves
        return first == second or ("legacy" in (kinds.get(first), kinds.get(second)) and blocking(first) and blocking(second))

    def host_waits(operations):
        for operation in operations:
            host.update(found.before[operation] | {operation})

    waiting = {line.split()[2] for line in records if line.startswith("fence") and line.endswith(" weak none generic")}
    for line in records:
        word = line.split()
        if not word:
            continue
        if word[0] == "warning:":  # records are lost
            return None
        memory = [(low, low + size) for low, size in allocations.values()]
        if word[0] == "stream":
            kinds[int(word[1])] = word[2]
        elif word[0] == "allocate":
            size = int(field(line, "bytes"))
            allocations[int(word[1])] = (int(field(line, "address"), 16), size)
        elif word[0] == "graph_launch":
            graph_stream[int(word[1])] = int(field(line, "stream"))
        elif word[0] == "operation":
            if " programmatic " in line and field(line, "launch") not in waiting:
                return None
            number, stream = int(word[1]), int(field(line, "stream"))
            graph = field(line, "graph_launch")
            stream = graph_stream[int(graph)] if graph else stream
            found.before[number] = set()
            found.stream[number], found.graph[number] = stream, graph
            for earlier in list(found.before):
                same_graph = graph and found.graph[earlier] == graph
                if earlier != number and not same_graph and in_order(found.stream[earlier], stream):
                    found.edge(earlier, number)
            for operation in host | waits[stream]:
                found.edge(operation, number)
            for operation in re.findall(r"\bafter (\d+)", line) if graph else ():
                found.edge(int(operation), number)
            if field(line, "launch"):
                launches[field(line, "launch")] = number
            touched = found.words[number]
            if "copy" in word:
                for name, what in (("from", READ), ("to", WRITE)):
                    for at in words_of(line[line.index(" %s 0x" % name) + len(name) + 2:], memory):
                        touched[at] = touched.get(at, 0) | what
            elif "set" in word:
                touched.update((at, WRITE) for at in words_of(line[line.index(" to 0x") + 4:], memory))
            elif "pool_free" in word:
                low, size = allocations[int(field(line, "allocation"))]
                touched.update((at, WRITE) for at in range(low // WORD, (low + size) // WORD))
        elif word[0] == "stream_wait":
            if int(field(line, "record")):
                waits[int(field(line, "stream"))].add(int(field(line, "record")))
        elif word[0] == "host_wait":
            number = int(word[2])
            if word[1] == "device":
                host_waits(list(found.before))
            elif word[1] == "stream":
                host_waits([o for o, stream in found.stream.items() if in_order(stream, number)]
                           if kinds.get(number) == "legacy" else
                           [o for o, stream in found.stream.items() if stream == number])
                host_waits(waits[number])
            elif word[1] == "event":
                host_waits([int(field(line, "record"))] if field(line, "record") else [])
            else:
                host_waits([number] if number in found.before else [])
        elif word[0] == "free" and not field(line, "operation"):
            host_waits(list(found.before))  # cudaFree waits for the device
        elif word[0] == "access" and " global " in line:
            touched = found.words[launches[word[2]]]
            for address, written, strong in re.findall(r"\b0x([0-9a-f]+)(#[0-9a-f]+)?( read 0x[0-9a-f]+(?: wrote)?)?", line):
                if int(address, 16) < 1 << 32:
                    continue  # a value that an access wrote
                what = (STRONG if strong else 0) | (WRITE if written or "wrote" in strong else READ)
                at = int(address, 16) // WORD
                # Weak beats strong: one weak access of the word is enough for a race.
                old = touched.get(at, what)
                touched[at] = ((old | what) & ~STRONG) | (old & what & STRONG)

    conflicts = []
    numbers = sorted(found.words)
    for i, first in enumerate(numbers):
        for second in numbers[i + 1:]:
            if first in found.before[second] or second in found.before[first]:
                continue
            a, b = found.words[first], found.words[second]
            for at in a.keys() & b.keys():
                if (a[at] | b[at]) & WRITE and not a[at] & b[at] & STRONG:
                    conflicts.append((first, second))
                    break
    return conflicts
