"""What comes before what, as launch_oracle.py has it: every thread has a clock, a dictionary of what it has seen of the
others; launch_memory.py holds each access against all earlier ones of its bytes. Sections are those of the PTX ISA's
chapter 8, Memory Consistency Model.

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
from launch_memory import Memory
from launch_threads import ACQUIRE, OF_LAUNCHES, RELEASE, SCOPES, SHARED_WINDOW, WINDOW_BYTES, launch_of


class Device(Memory):
    """Told of all that orders accesses, and of the accesses; finds the pairs while they come."""

    def __init__(self, sites):
        super().__init__(sites)
        self.writes = {}  # location → its last strong write, None where a weak one came after it
        self.barriers, self.clusters, self.objects = {}, {}, {}
        self.looked = {}  # object → [(phase, who saw it complete and looked, its stretch)]
        # location → [(the releases that a read saw at which somebody looked, who, stretch, kind, (block and scope of the write))]
        self.looked_reads = {}
        self.remote = {}  # object → phase → what came before arrivals of other blocks
        self.sc_fences = {}  # block → what came before each of its fence.sc
        self.fenced = {}  # location → of these what came before its last write, and before those that it is a chain with
        self.told = {}  # block → [(a read, what it was told so)]
        self.chains = 0
        self.copies = 0
        self.products = {}  # (block, warpgroup) → names of wgmma's reads, by the number of their group
        self.completing = {}  # (site, thread, object) → names of bulk copies that complete there, in order of issue

    # ---- accesses

    def write_weakly(self, location):
        if location in self.writes:
            self.writes[location] = None
            self.fenced.pop(location, None)

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
                    pending.update(self.certain_heads(thread, location, space, heads, site.scope) if site.unused else heads)
                    if not site.unused:
                        self.look(thread, location, heads, site.access, (by_block, scope))
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

    def look(self, thread, location, heads, kind, write):
        looks = self.looked_reads.setdefault(location, [])
        if heads and not any(saw is heads and name == thread.name for saw, name, *_ in looks):
            looks.append((heads, thread.name, thread.publish()[2], kind, write))

    def certain_heads(self, thread, location, space, heads, scope):
        """Of what a read saw at which nobody looks: what it would have seen in any case."""
        sure = {}
        for saw, name, epoch, kind, (of_block, of_scope) in self.looked_reads.get(location, ()):
            if not self.both_in_scope(scope, thread.block, of_scope, of_block):
                continue  # had it read the same, it would not have observed it (8.9.2)
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
        thread = self.thread(block, 32 * warp + lane)
        self.copies += 1
        site = self.sites[site_name]
        if site.opcode.startswith(("st.async.", "red.async.")):
            self.asynchronous_store(thread, site_name, destination, size, mbarrier)
            return
        by = "object" if mbarrier else "group"  # that tells of its completion
        names = (thread.name + (self.copies, by, "read"), thread.name + (self.copies, by, "write"))
        seen, own, epoch = thread.publish()
        clock = dict(seen)
        clock[own] = epoch
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
            self.completes(thread, site_name, mbarrier, names)
        else:
            thread.open_bulk.append(names)

    def asynchronous_store(self, thread, site_name, destination, size, mbarrier):
        """st.async, red.async: a value, through the generic proxy, relaxed at the cluster's scope."""
        site = self.sites[site_name]
        name = thread.name + ("object", self.copies)
        seen, own, epoch = thread.publish()
        space, address = self.generic(destination)
        for at in range(address, address + size, site.element):
            self.touch(name, thread.block, {**seen, own: epoch}, 1, space, at, site.element, site.access, site.strong,
                       site.scope, site_name)
        self.completes(thread, site_name, mbarrier, (name,))

    def completes(self, thread, site_name, mbarrier, names):
        space, address = self.generic(mbarrier)
        key = (site_name, thread.name, self.place(space, thread.block, address))
        self.completing.setdefault(key, []).append(names)

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
