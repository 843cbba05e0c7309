"""What launch_oracle.py knows of sites, threads and launches; launch_relation.py says how they are used."""
import functools


class Unknown(Exception):
    """Why this oracle says nothing."""


STRONG = {"relaxed", "acquire", "release", "acq_rel", "sc", "volatile", "mmio"}
ACQUIRE, RELEASE = {"acquire", "acq_rel", "sc"}, {"release", "acq_rel", "sc"}
SCOPES = ["cta", "cluster", "gpu", "sys"]
SHARED_WINDOW, WINDOW_BYTES = 1 << 48, 1 << 32  # of generic addresses (deadheat/address.h)
BLOCK_BITS = 40  # of blocks' numbers, which the launch's comes before
OF_LAUNCHES = {"begun", "waited", "begun reads", "waited reads"}  # entries of clocks: something of the launch is known
NEVER = 1 << 40  # of how often threads have met: nobody knows
RANK_BITS = 24  # shared addresses: the rank of the block in its cluster, plus one, lies above (deadheat/address.h)


def launch_of(block):
    return block >> BLOCK_BITS


def numbered(word, block):
    """A block of the launch that the record is of."""
    return int(word[2]) << BLOCK_BITS | block


def block_of(word):
    return numbered(word, int(word[4]))


def of_launch(name):
    """Of whose threads an entry of a clock tells."""
    if name[0] in OF_LAUNCHES:
        return name[1]
    return launch_of(name[0] if isinstance(name[0], int) else name[1][0])


class Site:
    says_unused = None  # of a wait, or a strong read, where the PTX is there

    def __init__(self, word):  # site M:N OPCODE ACCESS ORDERING SCOPE elements E of_bytes B …
        self.opcode, self.access, self.ordering, self.scope = word[2:6]
        self.elements, self.element = int(word[7]), int(word[9])
        self.size = self.elements * self.element
        if self.opcode.endswith("f16x2"):  # packed types are vectors, too (8.2.3)
            self.elements, self.element = 2 * self.elements, self.element // 2
        self.strong = self.ordering in STRONG
        if self.ordering in ("volatile", "mmio"):
            self.scope = "sys"  # 8.4: relaxed, at system scope
        self.reduction = self.opcode.startswith("red.")
        self.outside = self.ordering == "nc"  # of the model (8.1): it need not see what its launch writes

    @functools.cached_property
    def unused(self):
        """Does nobody look at its outcome?"""
        return self.says_unused is not None and self.says_unused()


class Thread:
    """seen: thread → its last stretch that comes before; shared by all who left a barrier, never changed in place."""
    __slots__ = ("name", "block", "seen", "epoch", "fences", "releases", "pending", "groups", "open_group", "bulk_groups",
                 "open_bulk", "open_products", "committed", "met")

    def __init__(self, name, block, seen):
        self.name, self.block, self.seen, self.epoch = name, block, seen, 1
        self.fences = {}  # scope → what came before the last releasing fence of that scope
        self.releases = {}  # location → {(thread, scope): release there}, as heads below
        self.pending = {}  # location → the releases that reads of it saw, for an acquire that follows
        self.groups, self.open_group = [], []  # of cp.async, as the names of their copies
        self.bulk_groups, self.open_bulk = [], []  # of bulk copies: (name of the read, name of the write)
        self.open_products, self.committed = [], 0  # of wgmma: names of reads; groups
        self.met = 0  # how often all threads of its block have met

    def publish(self):
        """All that it did and saw until now, as something that others may be given."""
        clock = (self.seen, self.name, self.epoch)
        self.epoch += 1
        return clock

    def sees(self, *clocks):
        merged, looked_at = dict(self.seen), {id(self.seen)}
        for seen, name, epoch in clocks:
            if merged.get(name, 0) < epoch:
                merged[name] = epoch
            if id(seen) in looked_at:  # many have left the same barrier
                continue
            looked_at.add(id(seen))
            for other, reached in seen.items():
                if merged.get(other, 0) < reached:
                    merged[other] = reached
        self.seen = merged


class Accesses:
    """Of one thread, or copy, to one word: what they are (the same tuple for the same, Device.whats), and the last stretch
    with each."""
    __slots__ = ("newest", "outside", "one", "one_epoch", "more")

    def __init__(self, what, epoch, outside):
        self.newest, self.outside = epoch, outside
        self.one, self.one_epoch, self.more = what, epoch, None  # most have one

    def has(self, what, epoch):
        return self.one_epoch == epoch and self.one is what or self.more is not None and self.more.get(what) == epoch

    def add(self, what, epoch, outside):
        self.newest = epoch
        self.outside |= outside
        if self.one is what:
            self.one_epoch = epoch
        elif self.more is None:
            self.more = {what: epoch}
        else:
            self.more[what] = epoch

    def all(self):
        return [(self.one, self.one_epoch), *(self.more.items() if self.more else ())]


def mask_of(word, at):
    """(mask, index of the word after it)"""
    return (0xFFFFFFFF, at + 2) if word[at] == "all" else (int(word[at + 1], 16), at + 2)


class Launch:
    """What is the same for all its threads. Blocks have numbers of their own in all launches: those of launch L begin with
    L << BLOCK_BITS."""

    def __init__(self, operation, block_size, grid, cluster, device=0):
        self.operation, self.block_size, self.grid, self.cluster = operation, block_size, grid, cluster
        self.device = device  # None: of a graph's node, which may be of any
        self.behind, self.told = set(), {}  # launches complete when it begins; what these had been told of others
        self.primary, self.waits = 0, (set(), {})  # the launch that its threads may wait for, and the same once one has
        self.waited = False
        self.final = {}  # what its threads had been told of others when it ended
        # owner → word → [reads there, others (name → Accesses), the block that they are of (-1: several), how often its
        # threads had met at the last]
        self.memory = {}
        self.beside, self.counted = [], 0  # Device.beside, of how many launches
