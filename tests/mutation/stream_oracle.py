"""A naive second opinion on the order of operations: does a recorded run have two operations that touch the same word, one
of them writing, and that no rule of CUDA's streams orders?

It reads what `deadheat info --records` prints, and shares nothing with the analyzer: every rule is one edge between two
operations, and the closure is computed bluntly. Accesses count as the 4-byte words that they begin in; races inside a
launch are not looked at. None where a programmatic dependent launch has threads that do not wait, since which accesses
come before is launch_oracle.py's affair, and when records are lost.

Rules (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; Runtime API, "Stream synchronization behavior"):
work of one stream in the order of submission; the legacy stream and every blocking stream in that order too; an event's
record before what a stream does after it waits for that; whatever the host waited for before what it submits then;
nodes of a graph after those that they depend on, and all of them as one piece of work of the stream. A programmatic
dependent launch begins as the launch directly in front of it did, if there is nothing else to wait for in between (guide,
"Programmatic Dependent Launch"); its stream's next work waits for both. What a host function writes comes after what the
host has waited for when it begins; where the host went on while it ran (a second host_wait for it), all that follows it
in its stream comes after what the host had waited for by its end.
"""
import collections
import re

WORD = 4
READ, WRITE, STRONG = 1, 2, 4


def field(line, name):
    match = re.search(r"\b%s (\S+)" % name, line)
    return match.group(1) if match else None


class Operations:
    """Which are complete before which begin, as far as the records say that were read."""

    def __init__(self):
        self.before = {}  # operation → set of operations that come before it
        self.primary = {}  # programmatic launch → the launch that only those of its threads come after that wait for it
        self.stream, self.graph = {}, {}
        self.kinds = {1: "legacy"}
        self.waits = collections.defaultdict(set)  # stream → operations that it waits for from now on
        self.default_waited = set()  # operations that blocking streams wait for, by a wait in the legacy stream
        self.host = set()  # operations that the host has waited for
        self.functions = {}  # of the host → has the host been let go on while it runs?
        self.own = {}  # function → what it knows, and what comes behind it does not
        self.begun, self.over = set(), set()
        self.graph_stream, self.launches = {}, set()
        self.behind_launch = {}  # stream → the launch that is the last to wait for; nothing where there is more

    def edge(self, first, second):
        self.before[second] |= self.before[first] | {first}

    def blocking(self, stream):
        return self.kinds.get(stream, "blocking") != "non_blocking"

    def in_order(self, first, second):  # of two streams, by themselves
        return first == second or ("legacy" in (self.kinds.get(first), self.kinds.get(second)) and
                                   self.blocking(first) and self.blocking(second))

    def host_waits(self, operations):
        for operation in operations:
            self.host.update(self.before[operation] | {operation})

    def ordered(self, first, second):
        return first in self.before[second] or first in self.own.get(second, ())

    def told(self, function):
        known = self.host - {function}
        self.before[function] |= known
        for behind, before in self.before.items():
            if behind not in self.begun and function in before:
                before |= known

    def read(self, word, line):
        if word[0] == "begin" and int(word[2]) in self.before:
            self.begun.add(int(word[2]))
            if int(word[2]) in self.functions:
                self.own[int(word[2])] = set(self.host)
        if word[0] == "stream":
            self.kinds[int(word[1])] = word[2]
        elif word[0] == "graph_launch":
            self.graph_stream[int(word[1])] = int(field(line, "stream"))
        elif word[0] == "operation":
            self.submitted(int(word[1]), line)
        elif word[0] == "stream_wait":
            stream = int(field(line, "stream"))
            self.behind_launch[stream] = None
            record = int(field(line, "record"))
            if record:
                self.waits[stream].add(record)
            if self.kinds.get(stream) == "legacy":  # an action there, as a launch is: all blocking streams, then it, then they
                self.default_waited |= {o for o, of in self.stream.items() if self.in_order(of, stream)} | self.waits[stream]
                self.behind_launch = {other: at for other, at in self.behind_launch.items() if not self.blocking(other)}
        elif word[0] == "host_wait":
            number = int(word[2])
            if word[1] == "device":
                self.host_waits(list(self.before))
            elif word[1] == "stream":
                self.host_waits([o for o, stream in self.stream.items() if self.in_order(stream, number)]
                                if self.kinds.get(number) == "legacy" else
                                [o for o, stream in self.stream.items() if stream == number])
                self.host_waits(self.waits[number])
            elif word[1] == "event":
                self.host_waits([int(field(line, "record"))] if field(line, "record") else [])
            elif self.functions.get(number) and number not in self.over:
                self.told(number)
            else:
                self.host_waits([number] if number in self.before else [])
                if number in self.functions:
                    self.functions[number] = number in self.begun
        elif word[0] == "end" and word[1] == "operation":
            self.over.add(int(word[2]))
        elif word[0] == "free" and not field(line, "operation"):
            self.host_waits(list(self.before))  # cudaFree waits for the device

    def submitted(self, number, line):
        graph = field(line, "graph_launch")
        stream = self.graph_stream[int(graph)] if graph else int(field(line, "stream"))
        self.before[number] = set()
        self.stream[number], self.graph[number] = stream, graph
        if " host_callback" in line:
            self.functions[number] = False
        launch = " launch " in line and not graph
        primary = self.behind_launch.get(stream) if launch and " programmatic" in line else None
        if primary:
            self.primary[number] = primary
            self.before[number] |= self.before[primary]
        else:
            for earlier in list(self.before):
                same_graph = graph and self.graph[earlier] == graph
                if earlier != number and not same_graph and self.in_order(self.stream[earlier], stream):
                    self.edge(earlier, number)
        for operation in self.host | self.waits[stream] | (self.default_waited if self.blocking(stream) else set()):
            self.edge(operation, number)
        for operation in re.findall(r"\bafter (\d+)", line) if graph else ():
            self.edge(int(operation), number)
        for other in set(self.stream.values()):
            if self.in_order(other, stream):
                self.behind_launch[other] = None
        self.behind_launch[stream] = number if launch else None


def beside(records):
    """{kernel: the kernels of launches that may run beside one of its, beside one of theirs, and so on, itself among them}, of
    kernels that nothing but launches runs beside; nothing where records are lost."""
    found, launches = Operations(), {}
    for line in records:
        word = line.split(None, 3)
        if not word:
            continue
        if word[0] == "warning:":
            return {}
        if word[0] == "operation" and (match := re.search(r" launch \d+ kernel (.*) module ", line)):
            launches[int(word[1])] = match.group(1)
        if word[0] not in ("access", "site"):
            found.read(line.split(), line)
    groups, others = {kernel: {kernel} for kernel in launches.values()}, set()
    for first, kernel in launches.items():
        for second in found.before:
            if first == second or found.ordered(first, second) or found.ordered(second, first):
                continue
            if second not in launches:
                others.add(kernel)
            elif launches[second] not in groups[kernel]:
                group = groups[kernel] | groups[launches[second]]
                groups.update(dict.fromkeys(group, group))
    return {kernel: group for kernel, group in groups.items() if not group & others}


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
    words = collections.defaultdict(dict)  # operation → word → what it does there
    allocations, launches = {}, {}
    waiting = {line.split()[2] for line in records if line.startswith("fence") and line.endswith(" weak none generic")}
    for line in records:
        word = line.split()
        if not word:
            continue
        if word[0] == "warning:":  # records are lost
            return None
        found.read(word, line)
        memory = [(low, low + size) for low, size in allocations.values()]
        if word[0] == "allocate":
            size = int(field(line, "bytes"))
            allocations[int(word[1])] = (int(field(line, "address"), 16), size)
        elif word[0] == "operation":
            number = int(word[1])
            if number in found.primary:
                if field(line, "launch") not in waiting:
                    return None
                found.edge(found.primary[number], number)
            if field(line, "launch"):
                launches[field(line, "launch")] = number
            touched = words[number]
            if "copy" in word:
                for name, what in (("from", READ), ("to", WRITE)):
                    for at in words_of(line[line.index(" %s 0x" % name) + len(name) + 2:], memory):
                        touched[at] = touched.get(at, 0) | what
            elif "set" in word:
                touched.update((at, WRITE) for at in words_of(line[line.index(" to 0x") + 4:], memory))
            elif "pool_free" in word:
                low, size = allocations[int(field(line, "allocation"))]
                touched.update((at, WRITE) for at in range(low // WORD, (low + size) // WORD))
        elif word[0] == "effects" and int(word[2]) in found.functions:
            low = int(field(line, "address"), 16)
            end = low + int(field(line, "bytes"))
            words[int(word[2])].update((at, WRITE) for at in range(low // WORD, (end + WORD - 1) // WORD))
        elif word[0] == "access" and " global " in line:
            touched = words[launches[word[2]]]
            for address, written, strong in re.findall(r"\b0x([0-9a-f]+)(#[0-9a-f]+)?( read 0x[0-9a-f]+(?: wrote)?)?", line):
                if int(address, 16) < 1 << 32:
                    continue  # a value that an access wrote
                what = (STRONG if strong else 0) | (WRITE if written or "wrote" in strong else READ)
                at = int(address, 16) // WORD
                # Weak beats strong: one weak access of the word is enough for a race.
                old = touched.get(at, what)
                touched[at] = ((old | what) & ~STRONG) | (old & what & STRONG)

    conflicts = []
    numbers = sorted(words)
    for i, first in enumerate(numbers):
        for second in numbers[i + 1:]:
            if found.ordered(first, second) or found.ordered(second, first):
                continue
            a, b = words[first], words[second]
            for at in a.keys() & b.keys():
                if (a[at] | b[at]) & WRITE and not a[at] & b[at] & STRONG:
                    conflicts.append((first, second))
                    break
    return conflicts
