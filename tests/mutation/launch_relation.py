"""What comes before what, as launch_oracle.py has it: every thread has a clock, a dictionary of what it has seen of the
others; every word of memory keeps all accesses that were made to it, and each access is held against each of them.
Sections are those of the PTX ISA's chapter 8, Memory Consistency Model.

A wait for an mbarrier's phase whose outcome nobody looks at orders nothing, unless somebody who looked has seen that phase
complete before it: it may have failed for all that the thread does. A strong read whose value nobody looks at synchronizes
with what it would have seen in any case: where somebody who looked has read the location before it, that was released before
what that read saw and before what it saw itself. The PTX tells which those are (ptx_outcomes.py).

Launches: what is complete before one begins (stream_oracle.Operations, or, behind griddepcontrol.wait, the launch in front)
comes before all that it does, and so does what those launches had been told of others. Threads of launches that run beside
each other synchronize as others do; whoever knows of anything that a launch did knows that what is complete before it is
complete. What copies, sets and the host do is not looked at. Of traces that are too large to be looked at so it says nothing
(Unknown).
"""


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


class Device:
    """All launches; finds the pairs while the records come."""

    def __init__(self, sites):
        self.sites, self.launches = sites, {}
        self.threads, self.writes = {}, {}
        self.what, self.whats = None, {}  # the last of touch(), and all that it had
        self.barriers, self.clusters, self.objects = {}, {}, {}
        self.looked = {}  # object → [(phase, who saw it complete and looked, its stretch)]
        self.looked_reads = {}  # location → [(the releases that a read saw at which somebody looked, who, stretch, kind)]
        self.remote = {}  # object → phase → what came before arrivals of other blocks
        self.sc_fences = {}  # block → what came before each of its fence.sc
        self.fenced = {}  # location → of these what came before its last write, and before those that it is a chain with
        self.told = {}  # block → [(a read, what it was told so)]
        self.links = {}  # (location, write) → (its chain of read-modify-writes, its place there)
        self.observers = {}  # chain → [(the place of the last write that a read observed, the read)]
        self.chains = 0
        self.exited, self.exited_of = set(), set()  # names of threads, and their blocks
        self.copies = 0
        self.products = {}  # (block, warpgroup) → names of wgmma's reads, by the number of their group
        self.completing = {}  # (site, thread, object) → names of bulk copies that complete there, in order of issue
        self.pairs = {}  # (launch, other's launch, one, other, word, what they do) → {(site, site)}

    # ---- launches

    def begin(self, number, launch, operations, numbers):
        """operations: stream_oracle's; numbers: operation → launch."""
        self.launches[number] = launch
        known = lambda complete: {numbers[operation] for operation in complete if numbers.get(operation) in self.launches}
        launch.behind = known(operations.before[launch.operation])
        launch.told = self.told_to(launch.behind)
        launch.told["begun", number] = 1
        launch.primary = numbers.get(operations.primary.get(launch.operation, 0), 0)

    def told_to(self, behind):
        """What launches that are complete had been told of others; it is visible to all proxies."""
        told = {}
        for number in behind:
            for name, epoch in self.launches[number].final.items():
                told[name] = max(epoch, told.get(name, 0))
                if isinstance(name[0], int):
                    told["global", name] = max(epoch, told.get(("global", name), 0))
        return told

    def end(self, number):
        if number not in self.launches:
            return
        launch, final, looked_at = self.launches[number], {}, set()
        for thread in [thread for thread in self.threads.values() if launch_of(thread.block) == number]:
            if id(thread.seen) not in looked_at:
                looked_at.add(id(thread.seen))
                for name, epoch in thread.seen.items():
                    if of_launch(name) != number:
                        final[name] = max(epoch, final.get(name, 0))
            del self.threads[thread.name]
        launch.final = final
        launch.memory = {owner: words for owner, words in launch.memory.items() if owner == "global"}

    def dependency_wait(self, threads):
        """griddepcontrol.wait: the launch in front is complete, and its memory visible (9.7.13.13)."""
        for thread in threads:
            number = launch_of(thread.block)
            launch = self.launches[number]
            if launch.primary in self.launches:
                if not launch.waited:
                    primary = self.launches[launch.primary]
                    behind = {launch.primary} | primary.behind | (primary.waits[0] if primary.waited else set())
                    launch.waits, launch.waited = (behind, self.told_to(behind)), True
                told = dict(launch.waits[1])
                told["waited", number] = 1
                thread.sees((told, thread.name, 0))

    def complete(self, other, own, clock, read):
        """Is all of the launch complete before whoever of `own` has this clock goes on (`read`: or all that it read)?"""
        if other in self.launches[own].behind:
            return True
        kinds = ("begun", "waited") + (("begun reads", "waited reads") if read else ())
        for name in clock:
            if name[0] in kinds and name[1] in self.launches:
                launch = self.launches[name[1]]
                if other in (launch.behind if name[0].startswith("begun") else launch.waits[0]):
                    return True
        return False

    # ---- who is where

    def thread(self, block, linear):
        name = (block, linear)
        found = self.threads.get(name)
        if found is None:
            found = self.threads[name] = Thread(name, block, self.launches[launch_of(block)].told)
        return found

    def lanes(self, block, warp, mask):
        return [self.thread(block, 32 * warp + lane) for lane in range(32) if mask >> lane & 1]

    def cluster_of(self, block):
        """(launch, and the cluster's coordinates)"""
        number, index = launch_of(block), block & ((1 << BLOCK_BITS) - 1)
        grid = self.launches[number].grid
        coordinates = index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1])
        return (number,) + tuple(at // size for at, size in zip(coordinates, self.launches[number].cluster))

    def peer(self, block, rank):
        number, *at = self.cluster_of(block)
        grid, cluster = self.launches[number].grid, self.launches[number].cluster
        first = [place * size for place, size in zip(at, cluster)]
        x = first[0] + rank % cluster[0]
        y = first[1] + rank // cluster[0] % cluster[1]
        z = first[2] + rank // (cluster[0] * cluster[1])
        return number << BLOCK_BITS | ((z * grid[1] + y) * grid[0] + x)

    def in_scope(self, scope, one, other):
        """8.5: are two blocks within a scope of either?"""
        if scope == "sys":
            return True
        if scope == "gpu":
            devices = {self.launches[launch_of(block)].device for block in (one, other)}
            return len(devices - {None}) <= 1
        if scope == "cluster":
            return self.cluster_of(one) == self.cluster_of(other)
        return scope == "cta" and one == other

    def both_in_scope(self, scope, block, other_scope, other_block):
        return self.in_scope(scope, block, other_block) and self.in_scope(other_scope, other_block, block)

    def place(self, space, block, address):
        if space != "shared":
            return "global", address
        rank = address >> RANK_BITS
        return ("shared", self.peer(block, rank - 1) if rank else block), address & ((1 << RANK_BITS) - 1)

    # ---- accesses

    def comes_before(self, earlier, earlier_epoch, earlier_kind, name, clock, space):
        """8.9.5; between the generic and the asynchronous proxy a write needs a proxy fence behind it as well, which an
        observed completion implies (9.7.9.25.4), and the end of the launch."""
        own, other = launch_of(name[0]), launch_of(earlier[0])
        if own != other and self.complete(other, own, clock, earlier_kind == "read" or "object" in earlier):
            return True
        if isinstance(name[-1], str) and not isinstance(earlier[-1], str) and earlier_kind != "read":
            return clock.get((space, earlier), 0) >= earlier_epoch
        if earlier_kind == "init" and clock.get(("inits", earlier), 0) >= earlier_epoch:
            return True
        kinds = ["of shared"] if space == "shared" else []
        if earlier_kind == "read" or "object" in earlier:  # complete: as good as read
            kinds += ["of reads"] + (["of shared reads"] if space == "shared" else [])
        if any(clock.get((kind, earlier), 0) >= earlier_epoch for kind in kinds):
            return True
        return clock.get(earlier, 0) >= earlier_epoch

    def observed(self, location, write, name, clock):
        """8.9.5, causality order's second clause: a read that comes before observed the write."""
        chain, place = self.links.get((location, write), (0, 0))
        return any(place <= last and (name[:2] == reader or clock.get(reader, 0) >= epoch)
                   for last, (_, reader, epoch) in self.observers.get(chain, []))

    def beside(self, number):
        """The launches that are not complete before that one begins, itself among them."""
        launch = self.launches[number]
        if launch.counted != len(self.launches):
            launch.counted = len(self.launches)
            launch.beside = [other for at, other in self.launches.items() if at == number or at not in launch.behind]
        return launch.beside

    def touch(self, name, block, clock, epoch, space, address, size, kind, strong, scope, site, met=NEVER):
        """Holds one access against all earlier ones of its bytes (8.7.1). Names that end in text are of bulk copies. Where a
        thread has made the same access before, the later one stands for both, since what does not come after the one does
        not come after the other; but of strong writes each may be observed by itself. met: of accesses by threads themselves,
        how often all threads of the block had met; what was done before they met again comes before."""
        owner, at = self.place(space, block, address)
        number = launch_of(name[0])
        own = self.launches[number]
        words = own.memory.get(owner)
        if words is None:
            words = own.memory[owner] = {}
        all_words = [words]
        if owner == "global":
            all_words += [other.memory[owner] for other in self.beside(number) if other is not own and owner in other.memory]
        writes, outside = kind != "read", self.sites[site].outside
        alone = met < NEVER and len(all_words) == 1 and not outside and block not in self.exited_of
        # Most come before by what the clock says of their thread; where that is not enough, each is looked at.
        plain_reads, plain_writes = not outside, not outside and not isinstance(name[-1], str)
        for word in range(at // 4, (at + size + 3) // 4):
            what = (kind, strong, scope, at - 4 * word, size, block, site, epoch if strong and writes else 0)
            if what != self.what:
                self.what = self.whats.setdefault(what, what)
            what = self.what
            memory = words.get(word)
            if memory is None:
                memory = words[word] = [(), (), block, 0]
            mine = memory[writes].get(name) if memory[writes] else None
            if mine is not None and mine.has(what, epoch):
                continue
            behind = alone and memory[2] == block and memory[3] < met
            for of_launch in all_words if not behind else ():
                there = memory if of_launch is words else of_launch.get(word)
                if there is None:
                    continue
                for reads in (False, True) if writes else (False,):
                    of = there[0 if reads else 1]
                    if not of:
                        continue
                    plain = plain_reads if reads else plain_writes
                    inside = reads and of_launch is words
                    for other_name, others in of.items():
                        if plain and (inside or not others.outside) and clock.get(other_name, 0) >= others.newest:
                            continue
                        if other_name != name:
                            for other, other_epoch in others.all():
                                self.hold((name, clock, space, outside, owner) + what, word, other_name, other_epoch, other)
            memory[2], memory[3] = block if memory[2] == block else -1, max(met, memory[3])
            if mine is not None:
                mine.add(what, epoch, outside)
            elif memory[writes]:
                memory[writes][name] = Accesses(what, epoch, outside)
            else:
                memory[writes] = {name: Accesses(what, epoch, outside)}

    def touch_weakly(self, threads, space, addresses, site_name):
        """Likewise weak accesses of threads of one block, to an address each. What nobody touched since all of them met, as most
        words, needs no look at who did."""
        site, block = self.sites[site_name], threads[0].block
        owner = ("shared", block) if space == "shared" else "global"
        words = self.launches[launch_of(block)].memory.setdefault(owner, {})
        size, writes, outside, whats = site.element, site.access != "read", site.outside, {}
        apart = owner != "global" or len(self.beside(launch_of(block))) == 1
        alone = apart and not outside and block not in self.exited_of
        end = 1 << RANK_BITS if owner != "global" else 1 << 64
        for thread, address in zip(threads, addresses):
            name, met, epoch = thread.name, thread.met, thread.epoch
            for at in range(address, address + site.size, size):
                memory = words.get(at // 4)
                fresh = apart if memory is None else alone and memory[2] == block and memory[3] < met
                if not fresh or at >= end or at % 4 + size > 4:
                    self.touch(name, block, thread.seen, epoch, space, at, size, site.access, False, site.scope, site_name, met)
                    continue
                what = whats.get(at % 4)
                if what is None:
                    what = (site.access, False, site.scope, at % 4, size, block, site_name, 0)
                    what = whats[at % 4] = self.whats.setdefault(what, what)
                if memory is None:
                    memory = words[at // 4] = [(), (), block, met]
                memory[3] = met
                mine = memory[writes]
                if not mine:
                    memory[writes] = {name: Accesses(what, epoch, outside)}
                elif name in mine:
                    mine[name].add(what, epoch, outside)
                else:
                    mine[name] = Accesses(what, epoch, outside)

    def write_weakly(self, location):
        if location in self.writes:
            self.writes[location] = None
            self.fenced.pop(location, None)

    def hold(self, one, word, other_name, other_epoch, other):
        """Against one of the same word."""
        name, clock, space, outside, owner, kind, strong, scope, at, size, block, site, _ = one
        other_kind, other_strong, other_scope, other_at, other_size, other_block, other_site, _ = other
        if max(at, other_at, 0) >= min(at + size, other_at + other_size, 4):
            return  # other bytes
        number, other_number = launch_of(name[0]), launch_of(other_name[0])
        outside = outside or self.sites[other_site].outside
        # What is read, and then overwritten by its launch: that depends on whether the value was needed before, which nobody
        # looks at here.
        in_time = other_kind == "read" and other_number == number
        if (not outside or in_time) and self.comes_before(other_name, other_epoch, other_kind, name, clock, space):
            return
        write = (other_name, other_epoch)
        if (other_strong and other_kind != "read" and
                self.observed((owner, 4 * word + other_at, other_size), write, name, clock)):
            return
        if (strong and other_strong and (at, size) == (other_at, other_size) and
                self.both_in_scope(scope, block, other_scope, other_block)):
            return
        pair = (other_number, number, other_name[:2], name[:2], owner, word, other_kind, kind)
        self.pairs.setdefault(pair, set()).add((other_site, site))

    def forget(self, address, size):
        """What was there, in global memory."""
        for launch in self.launches.values():
            words = launch.memory.get("global", {})
            for word in range(address // 4, (address + size + 3) // 4):
                words.pop(word, None)

    def access(self, thread, site_name, space, address, values):
        """values: None, or (what a strong access read, what it wrote or None)."""
        site, block = self.sites[site_name], thread.block
        if not site.strong:
            self.touch_weakly([thread], space, [address], site_name)
            if site.access != "read" if values is None else values[1] is not None:
                self.write_weakly(self.place(space, block, address) + (site.size,))
            return
        wrote = values[1] is not None if values else site.access != "read"
        location = self.place(space, block, address) + (site.size,)
        last = self.writes.get(location)
        heads = {}  # (thread, scope) → (block, scope, what came before); of a thread the last stands for all
        link = None  # the write that it observes
        if site.access != "write" and last and last[2] == values[0]:
            by_block, scope, _, released, atomic, last_link = last
            if self.both_in_scope(site.scope, block, scope, by_block):  # 8.9.2: observation, of the morally strong
                heads, link = released, last_link
                if not site.reduction:
                    if self.fenced.get(location) and not site.unused:
                        self.told.setdefault(block, []).append((thread.publish(), list(self.fenced[location])))
                    pending = thread.pending.setdefault(location, {})
                    pending.update(self.certain_heads(thread, location, space, heads) if site.unused else heads)
                    if not site.unused:
                        self.look(thread, location, heads, site.access)
                    if site.ordering in ACQUIRE:
                        self.acquire(thread, site.scope, pending.values())
        # Now, since a release synchronizes with the last operation of an acquire pattern (8.9.4): an acquire by itself comes
        # after what it saw released. A failed compare-and-swap is an atomic operation too (8.7.1 asks whether one may write).
        for element in range(site.elements):  # of a vector each is an access
            self.touch(thread.name, block, thread.seen, thread.epoch, space, address + element * site.element, site.element,
                       site.access, site.strong, site.scope, site_name, thread.met)
        write = (thread.name, thread.epoch)
        if link and not site.unused and not site.reduction:
            self.observers.setdefault(link[0], []).append((link[1], thread.publish()))
        elif wrote:
            thread.epoch += 1  # one of its own for each write that may be observed
        if not wrote:
            return
        fenced = self.fenced.get(location, []) if site.access == "atomic" and last and heads is last[3] else []
        there = {id(clock) for clock, _, _ in fenced}
        more = [(clock, of, by) for clock, of, by in self.sc_fences.get(block, [])
                if id(clock) not in there and self.known(clock, thread)]
        self.fenced[location] = fenced + more
        # 8.8: what a release pattern that ends in this write begins with.
        released = dict(heads) if site.access == "atomic" else {}
        for scope, clock in thread.fences.items():
            released[thread.name, scope] = (block, scope, clock)
        own = thread.releases.setdefault(location, {})
        if site.ordering in RELEASE:
            own[thread.name, site.scope] = (block, site.scope, thread.publish())
        released.update(own)
        if site.access != "atomic" or not link:
            self.chains += 1
            link = (self.chains, 0)
        link = self.links[location, write] = (link[0], link[1] + 1)
        self.writes[location] = (block, site.scope, values[1], released, site.access == "atomic", link)

    def look(self, thread, location, heads, kind):
        looks = self.looked_reads.setdefault(location, [])
        if heads and not any(saw is heads and name == thread.name for saw, name, _, _ in looks):
            looks.append((heads, thread.name, thread.publish()[2], kind))

    def certain_heads(self, thread, location, space, heads):
        """Of what a read saw at which nobody looks: what it would have seen in any case."""
        sure = {}
        for saw, name, epoch, kind in self.looked_reads.get(location, ()):
            if name == thread.name or self.comes_before(name, epoch, kind, thread.name, thread.seen, space):
                for key, head in saw.items():
                    _, of, at = head[2]
                    if any((of == other and at <= reached) or at <= seen.get(of, 0)
                           for _, _, (seen, other, reached) in heads.values()):
                        sure[key] = head
        return sure

    def acquire(self, thread, scope, heads):
        """8.9.4: a release synchronizes with an acquire that saw it, where each is in the other's scope."""
        clocks = [clock for block, of, clock in heads if self.both_in_scope(scope, thread.block, of, block)]
        if clocks:
            thread.sees(*clocks)

    @staticmethod
    def known(clock, thread):
        return clock[1] == thread.name or thread.seen.get(clock[1], 0) >= clock[2]

    def fence(self, block, warp, mask, ordering, scope):
        for thread in self.lanes(block, warp, mask):
            # 8.9.3, 8.10.1: a fence.sc before a write that was observed before this one precedes it in Fence-SC order.
            if ordering == "sc":
                for read, clocks in self.told.get(block, []):
                    if self.known(read, thread):
                        thread.sees(*[clock for clock, of, by in clocks if self.both_in_scope(scope, block, of, by)])
            if ordering in ACQUIRE:
                for heads in thread.pending.values():
                    self.acquire(thread, scope, heads.values())
            if ordering in RELEASE:
                thread.fences[scope] = thread.publish()
                if ordering == "sc":
                    self.sc_fences.setdefault(block, []).append((thread.fences[scope], scope, block))

    @staticmethod
    def of_shared(clock):
        """What the clock says of accesses to shared memory, and of nothing else."""
        seen, name, epoch = clock
        seen = {of: reached for of, reached in seen.items() if of[0] not in OF_LAUNCHES}
        there = {("of shared", of) if isinstance(of[0], int) else
                 ("of shared reads", of[1]) if of[0] == "of reads" else of: reached for of, reached in seen.items()}
        return there, ("of shared", name) if isinstance(name[0], int) else name, epoch

    @staticmethod
    def of_reads(clock):
        """What the clock says of reads, and of nothing else."""
        seen, name, epoch = clock
        kinds = {"of shared": "of shared reads", "of reads": "of reads", "of shared reads": "of shared reads",
                 "begun": "begun reads", "waited": "waited reads", "begun reads": "begun reads",
                 "waited reads": "waited reads"}
        there = {("of reads", of) if isinstance(of[0], int) else (kinds[of[0]], of[1]): reached
                 for of, reached in seen.items() if isinstance(of[0], int) or of[0] in kinds}
        return there, ("of reads", name), epoch

    def restricted_fence(self, threads, ordering, scope, inits):
        """9.7.13.4: of the thread's own mbarrier.init alone, or of accesses to shared memory alone."""
        for thread in threads:
            if ordering in ACQUIRE and not inits:
                for heads in thread.pending.values():
                    self.acquire(thread, scope, [(of, far, self.of_shared(clock)) for of, far, clock in heads.values()])
            if ordering in RELEASE:
                clock = thread.publish()
                seen, name, epoch = ({}, ("inits", clock[1]), clock[2]) if inits else self.of_shared(clock)
                if scope in thread.fences:  # it takes nothing from what an earlier one released
                    earlier, by, reached = thread.fences[scope]
                    seen = {**seen, **{of: max(at, seen.get(of, 0)) for of, at in earlier.items()}}
                    seen[by] = max(seen.get(by, 0), reached)
                thread.fences[scope] = (seen, name, epoch)

    # ---- barriers

    def meet(self, threads):
        clocks = [thread.publish() for thread in threads]
        if threads:
            threads[0].sees(*clocks)
            for thread in threads[1:]:
                thread.seen = threads[0].seen
                # its own entry is newer than what it needs: epochs only grow

    def of_block(self, block):
        return [self.thread(block, linear) for linear in range(self.launches[launch_of(block)].block_size)]

    def cluster_barrier(self, block, warp, mask, waits, phase, relaxed):
        key = (self.cluster_of(block), phase)
        arrived = self.clusters.setdefault(key, [])
        for thread in self.lanes(block, warp, mask):
            if waits:
                thread.sees(*arrived)
            elif not relaxed:
                arrived.append(thread.publish())
            else:  # a fence before it does what it leaves out (9.7.13.3)
                arrived += [clock for scope, clock in thread.fences.items() if scope in ("cluster", "gpu", "sys")]

    # ---- asynchronous copies: each comes after its issue, and before nothing but what waits for it (8.9.1.1)

    def copy(self, block, warp, lane, site_name, size, destination, source, source_size):
        thread = self.thread(block, 32 * warp + lane)
        self.copies += 1
        name = thread.name + (self.copies,)
        seen, own, epoch = thread.publish()
        clock = dict(seen)
        clock[own] = epoch
        if source_size:
            self.touch(name, block, clock, 1, "global", source, source_size, "read", False, "none", site_name)
        self.touch(name, block, clock, 1, "shared", destination, size, "write", False, "none", site_name)
        thread.open_group.append(name)

    def commit(self, threads, bulk):
        for thread in threads:
            if bulk:
                thread.bulk_groups.append(thread.open_bulk)
                thread.open_bulk = []
            else:
                thread.groups.append(thread.open_group)
                thread.open_group = []

    @staticmethod
    def generic(address):
        """(space, address in it) of a generic address."""
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
            return "shared", address - SHARED_WINDOW
        return "global", address

    def bulk_copy(self, block, warp, lane, site_name, source, destination, size, mbarrier):
        if not source:  # a value, through the generic proxy
            raise Unknown("asynchronous stores")
        thread = self.thread(block, 32 * warp + lane)
        self.copies += 1
        by = "object" if mbarrier else "group"  # that tells of its completion
        names = (thread.name + (self.copies, by, "read"), thread.name + (self.copies, by, "write"))
        seen, own, epoch = thread.publish()
        clock = dict(seen)
        clock[own] = epoch
        site = self.sites[site_name]
        space, address = self.generic(source)
        self.touch(names[0], block, clock, 1, space, address, size, "read", False, "none", site_name)
        space, address = self.generic(destination)
        if site.access == "atomic":
            element = max(1, site.size)  # of a tensor's the map says it
            for at in range(0, size, element):
                self.touch(names[1], block, clock, 1, space, address + at, element, "atomic", site.strong, site.scope,
                           site_name)
        else:
            self.touch(names[1], block, clock, 1, space, address, size, "write", False, "none", site_name)
        if mbarrier:
            space, address = self.generic(mbarrier)
            key = (site_name, thread.name, self.place(space, block, address))
            self.completing.setdefault(key, []).append(names)
        else:
            thread.open_bulk.append(names)

    def bulk_wait(self, threads, pending, read_only):
        for thread in threads:
            done = thread.bulk_groups[:len(thread.bulk_groups) - pending] if pending else thread.bulk_groups
            if not read_only:
                thread.bulk_groups = thread.bulk_groups[len(done):]
            names = [name for group in done for pair in group for name in (pair[:1] if read_only else pair)]
            if names:
                thread.sees(*(({}, name, 1) for name in names))

    # wgmma (9.7.15): all warps of a warpgroup issue, commit and await the same, so that one's wait is for what all read.
    def product(self, thread, site_name, source, size):
        self.copies += 1
        name = thread.name + (self.copies, "group", "read")
        seen, own, epoch = thread.publish()
        clock = dict(seen)
        clock[own] = epoch
        space, address = self.generic(source)
        self.touch(name, thread.block, clock, 1, space, address, size, "read", False, "none", site_name)
        thread.open_products.append(name)

    def products_of(self, thread):
        return self.products.setdefault((thread.block, thread.name[1] // 128), {})

    def commit_products(self, threads):
        for thread in threads:
            self.products_of(thread).setdefault(thread.committed, []).extend(thread.open_products)
            thread.open_products = []
            thread.committed += 1

    def await_products(self, threads, pending):
        for thread in threads:
            groups = self.products_of(thread)
            names = [name for number in groups if number < thread.committed - pending for name in groups[number]]
            if names:
                thread.sees(*(({}, name, 1) for name in names))

    def proxy_fence(self, threads, spaces):
        """What comes before it is visible to the other proxy (8.3)."""
        for thread in threads:
            merged = dict(thread.seen)
            merged[thread.name] = thread.epoch
            for space in spaces:
                for name, epoch in list(merged.items()):
                    if isinstance(name[0], int) and merged.get((space, name), 0) < epoch:
                        merged[space, name] = epoch
            thread.seen = merged
            thread.epoch += 1

    def wait(self, threads, pending, everything):
        for thread in threads:
            keep = 0 if everything else pending
            done = thread.groups[:len(thread.groups) - keep] if keep else thread.groups
            thread.groups = thread.groups[len(done):]
            names = [name for group in done for name in group]
            if everything:
                names += thread.open_group
                thread.open_group = []
            if names:
                thread.sees(*(({}, name, 1) for name in names))

    # ---- mbarriers

    def mbarrier(self, block, warp, what, site_name, ordering, of_block, scope, lane, address, phase, succeeded):
        thread = self.thread(block, 32 * warp + lane)
        key = (of_block, address)
        phases = self.objects.setdefault(key, {})
        site = self.sites[site_name]
        if "mbarrier." in site.opcode.split("::")[0]:  # it touches the object; but for who makes and ends it, atomically
            alone = what in ("init", "inval")
            self.touch(thread.name, of_block, thread.seen, thread.epoch, "shared", address, 8,
                       "init" if what == "init" else site.access, not alone,
                       "none" if alone else "sys", site_name)
        if what in ("arrive", "arrive_drop"):
            # It releases by itself, or ends the pattern of a fence before it (8.8).
            heads = phases.setdefault(phase, [])
            heads += [(block, min(scope, of, key=SCOPES.index), clock) for of, clock in thread.fences.items()]
            if ordering in RELEASE:
                clock = thread.publish()
                heads.append((block, scope, clock))
                if block != of_block:
                    self.remote.setdefault(key, {}).setdefault(phase, []).append(clock)
        elif what == "async_arrive":  # after all cp.async that the thread has issued, and after nothing else (9.7.9.25.3)
            names = [name for group in thread.groups for name in group] + thread.open_group
            phases.setdefault(phase, []).extend((block, "sys", ({}, name, 1)) for name in names)
        elif what == "test" and succeeded and (not site.unused or self.certain(thread, key, phase)):
            if not site.unused:
                self.looked.setdefault(key, []).append((phase, thread.name, thread.epoch))
                thread.epoch += 1
            for reached in sorted(phases):
                if reached > phase:
                    continue
                if ordering in ACQUIRE:
                    self.acquire(thread, scope, phases[reached])
                    # 9.7.13.15.16, item 4: reads before an arrival come before what follows the wait, whatever the scopes.
                    thread.sees(*(self.of_reads(clock) for clock in self.remote.get(key, {}).get(reached, [])))
                else:
                    thread.pending.setdefault(key, {}).update(enumerate(phases[reached]))
        elif what == "init":
            self.objects[key] = {}
            self.looked.pop(key, None)
            self.remote.pop(key, None)
        elif what == "complete_tx":
            waiting = self.completing.get((site_name, thread.name, (("shared", of_block), address)), [])
            if waiting:  # of that copy's own accesses, and of nothing else
                phases.setdefault(phase, []).extend((of_block, "sys", ({}, name, 1)) for name in waiting.pop(0))

    def certain(self, thread, key, phase):
        return any(seen >= phase and (name == thread.name or
                                      self.comes_before(name, epoch, "read", thread.name, thread.seen, "shared"))
                   for seen, name, epoch in self.looked.get(key, []))
