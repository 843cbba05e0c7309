"""Launches and their memory: every word keeps all accesses that were made to it, and each access is held against each of them.
What orders accesses within launches is launch_relation.py's affair.
"""
from launch_threads import BLOCK_BITS, NEVER, RANK_BITS, Accesses, Thread, launch_of, of_launch


class Memory:
    """Of all launches, and their threads; finds the pairs while the accesses come."""

    def __init__(self, sites):
        self.sites, self.launches, self.threads = sites, {}, {}
        self.what, self.whats = None, {}  # the last of touch(), and all that it had
        self.exited, self.exited_of = set(), set()  # names of threads, and their blocks
        self.links = {}  # (location, write) → (its chain of read-modify-writes, its place there)
        self.observers = {}  # chain → [(the place of the last write that a read observed, the read)]
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
