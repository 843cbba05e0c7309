#include "tests/unit/device_log_true_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace deadheat::device_log::true_order {
namespace {

constexpr std::uint64_t memory = 0x1000;
std::uint32_t first_value(std::uint32_t location) { return 1 + location; }

} // namespace

struct World::Code : Segments {
  Code() {
    using Kind = ptx::Slot::Kind;
    auto access = [&](const char* opcode, AccessKind kind, const ptx::Slot& slot) {
      add(opcode, SiteKind::access, slot, 32 + lanes8 + 3 * lanes4).access = kind;
    };
    ptx::Slot strong;
    strong.kind = Kind::strong;
    strong.valued = strong.short_values = true;
    strong.address = header + 32;
    const std::uint32_t first = strong.address + lanes8, second = first + lanes4, third = second + lanes4;
    strong.value_read = first;
    access("ld.relaxed.gpu.global.u32", AccessKind::read, strong);
    strong.value_read = 0;
    strong.operand = second;
    access("st.relaxed.gpu.global.u32", AccessKind::write, strong);
    strong.value_read = first;
    access("atom.relaxed.gpu.global.exch.b32", AccessKind::atomic, strong);
    access("atom.relaxed.gpu.global.add.u32", AccessKind::atomic, strong);
    strong.compares = true;
    strong.compared = third;
    access("atom.relaxed.gpu.global.cas.b32", AccessKind::atomic, strong);
    ptx::Slot event, block;
    event.kind = Kind::event;
    add("barrier.cluster.arrive", SiteKind::cluster_barrier, event);
    add("barrier.cluster.wait", SiteKind::cluster_barrier, event);
    block.kind = Kind::barrier;
    block.number_known = block.threads_known = true;
    add("barrier.sync", SiteKind::barrier, block);
    block.number = 1;
    block.threads = threads;
    add("barrier.sync", SiteKind::barrier, block);
    add("barrier.arrive", SiteKind::barrier, block).arrive_only = true;
    ptx::Slot object;
    object.kind = Kind::mbarrier;
    object.narrow = true;
    object.address = header + 32;
    object.operand_known = true;
    object.number = threads;
    add("mbarrier.init.shared.b64", SiteKind::mbarrier, object, 32 + lanes4);
    object.number = 1;
    add("mbarrier.arrive.shared.b64", SiteKind::mbarrier, object, 32 + lanes4);
    object.operand_known = false;
    object.short_values = true;
    object.operand = object.address + lanes4;
    add("mbarrier.try_wait.parity.shared.b64", SiteKind::mbarrier, object, 32 + 2 * lanes4);
    add_exit();
  }
};

World::World(const Options& options) : options_(options), random_(options.seed), code_(std::make_unique<Code>()) {
  shape_ = code_->shape(blocks, threads);
  shape_.grid = {blocks, 1, 1};
  shape_.cluster = {in_cluster, 1, 1};
  for (std::uint32_t c = 0; c < options.locations; ++c) {
    if (options.leftover) memory_[memory + 4 * c].value = first_value(c);
  }
  for (std::uint32_t b = 0; b < blocks; ++b) {
    for (std::uint32_t w = 0; w < warps; ++w) part(b, w, 0);
  }
}
World::~World() = default;

void World::run(Output& to) {
  LaunchLog log(shape_, to);
  Rounds rounds;
  while (!strands_.empty()) {
    for (int i = 0; i < 300 && !strands_.empty(); ++i) {
      const std::size_t who = random_() % strands_.size();
      Strand& strand = strands_[who];
      if (strand.sleeps) {
        --strand.sleeps;
      } else if (step(strand)) {
        const Strand over = strand;
        strands_.erase(strands_.begin() + std::ptrdiff_t(who));
        free(over);
      } else if (random_() % 4 == 0) {
        strand.sleeps = random_() % (random_() % 8 ? 4 : 60);
      }
      ASSERT_LT(++steps_, 4'000'000u) << "what happens here has no end";
    }
    rounds.drain(rings_, log, options_.early);
  }
  for (Ring& ring : rings_) ring.drain(log);
  settled = log.settled();
  log.finish();
  EXPECT_EQ(log.damaged(), 0u);
  guessed = log.guessed();
}

void World::part(std::uint32_t block, std::uint32_t warp, std::uint32_t stage) {
  // All warps of a cluster take the same barriers.
  std::mt19937 common(options_.seed * 7919 + stage * 31 + block / in_cluster);
  const unsigned kind = unsigned(common() % (options_.objects ? 6 : 5));
  std::array<std::uint32_t, 3> parts{};
  for (unsigned l = 0; l < 32; ++l) parts[options_.parted ? random_() % (1 + random_() % 3) : 0] |= 1u << l;
  for (std::uint32_t lanes : parts) {
    if (!lanes) continue;
    Strand strand;
    strand.block = block, strand.warp = warp, strand.lanes = lanes, strand.stage = stage;
    auto some = [&] {
      for (unsigned i = unsigned(random_() % 4); i; --i) strand.todo.push_back(strong());
    };
    if (stage == 0 && options_.objects) {
      if (warp == 0 && (lanes & 1)) strand.todo.push_back(object_init);
      strand.todo.push_back(barrier);
    }
    some();
    if (stage == options_.stages) {
      strand.todo.push_back(leave);
    } else if (kind == 1) {
      strand.todo.push_back(barrier);
    } else if (kind == 2) {
      strand.todo.push_back(named_barrier);
    } else if (kind == 3) {
      strand.todo.push_back(cluster_arrive);
      some();
      strand.todo.push_back(cluster_wait);
    } else if (kind == 4) { // one warp lets the other go, and then they meet
      strand.todo.push_back(warp == stage % warps ? named_arrive : named_barrier);
      some();
      strand.todo.push_back(barrier);
    } else if (kind == 5) {
      strand.todo.push_back(object_arrive);
      some();
      strand.todo.push_back(object_wait);
    }
    if (stage < options_.stages) some();
    for (What& what : strand.todo) {
      if (options_.own && what < cluster_arrive && !(lanes & 1)) what = load;
    }
    strands_.push_back(std::move(strand));
  }
}

What World::strong() {
  if (random_() % 8 >= options_.writers) return load;
  const unsigned kind = unsigned(random_() % 6);
  if (!options_.atomics || (kind < 3 && options_.stores)) return store;
  return kind % 3 == 0 ? exchange : kind % 3 == 1 ? add : compare;
}

void World::free(const Strand& strand) {
  std::uint32_t& lanes = over_[{strand.block, strand.warp}];
  lanes |= strand.lanes;
  if (~lanes) return;
  lanes = 0;
  if (strand.stage < options_.stages) part(strand.block, strand.warp, strand.stage + 1);
}

std::vector<std::uint8_t>& World::bytes_of(const Strand& s) {
  return rings_[s.block % rings_.size()].segments[s.segment].bytes;
}
void World::reserve(Strand& s) {
  s.segment = rings_[s.block % rings_.size()].reserve(code_->segments[s.todo[s.at]].bytes);
  SegmentHeader head;
  head.segment = s.todo[s.at];
  head.block = s.block;
  head.warp = s.warp;
  head.mask = s.lanes;
  put(bytes_of(s), 0, head);
  for (unsigned l = 0; l < 32; ++l) put_address(s, l, ~std::uint64_t(0));
}
void World::publish(const Strand& s) { rings_[s.block % rings_.size()].segments[s.segment].whole = true; }
void World::put_address(Strand& s, unsigned lane, std::uint64_t address) {
  const ptx::Slot& slot = code_->slot(s.todo[s.at]);
  if (!slot.address) return;
  if (slot.narrow)
    put(bytes_of(s), slot.address + 4 * lane, std::uint32_t(address));
  else
    put(bytes_of(s), slot.address + 8 * lane, address);
}
void World::happened(const Strand& s, unsigned lane, Event event) {
  event.what = s.todo[s.at];
  truth[{s.block, s.warp * 32 + lane}].push_back(event);
}
void World::all(const Strand& s, Event event) {
  for (unsigned l = 0; l < 32; ++l) {
    if (s.lanes >> l & 1) happened(s, l, event);
  }
}
World::Meeting& World::meeting(const Strand& s) {
  const What what = s.todo[s.at];
  const bool of_cluster = what == cluster_arrive || what == cluster_wait;
  const bool of_object = what == object_arrive || what == object_wait;
  const std::uint32_t number = of_cluster ? 0u : of_object ? 1u : what == barrier ? 2u : 3u;
  return meetings_[{number, of_cluster ? s.block / in_cluster : s.block}];
}
std::uint32_t World::arrive(Strand& s, std::uint32_t wanted) {
  Meeting& m = meeting(s);
  const std::uint32_t phase = m.phase;
  m.here += std::uint32_t(__builtin_popcount(s.lanes));
  for (unsigned l = 0; l < 32; ++l) {
    if (s.lanes >> l & 1) m.arrivals[{s.block, s.warp * 32 + l}] = phase + 1;
  }
  if (m.here == wanted) {
    m.here = 0;
    ++m.phase;
  }
  return phase;
}
std::uint32_t World::awaited(Strand& s) {
  return meeting(s).arrivals[{s.block, s.warp * 32 + unsigned(__builtin_ctz(s.lanes))}];
}
bool World::next(Strand& s) {
  s.step = 0;
  return ++s.at == s.todo.size();
}

bool World::step(Strand& s) {
  if (s.at == s.todo.size()) return true;
  switch (const What what = s.todo[s.at]) {
    case barrier:
    case named_barrier:
    case cluster_wait: return step_of_barrier(s);
    case named_arrive:
    case cluster_arrive:
      if (s.step++ == 0) {
        reserve(s);
        return false;
      }
      all(s, {what, 0, 0, 0, arrive(s, what == named_arrive ? threads : threads * in_cluster), false, 0});
      publish(s);
      return next(s);
    case leave:
      reserve(s);
      all(s);
      publish(s);
      return next(s);
    case object_wait: return step_of_wait(s);
    default: return step_of_tickets(s);
  }
}

bool World::step_of_barrier(Strand& s) {
  const What what = s.todo[s.at];
  if (what == cluster_wait) {
    if (s.step == 0) {
      reserve(s);
      all(s,
          {what, 0, 0, 0, awaited(s) - 1, false, 0}); // known to be over when all have arrived, while this one sleeps
      publish(s);
      s.step = 1;
    } else if (meeting(s).phase >= awaited(s)) {
      return next(s);
    }
  } else if (s.step == 0) {
    reserve(s);
    s.step = 1;
  } else if (s.step == 1) {
    // When all have come so far their log may say that it is over, though those that sleep here arrive later.
    all(s, {what, 0, 0, 0, meeting(s).phase, false, 0});
    publish(s);
    s.step = 2;
  } else if (s.step == 2) {
    const std::uint32_t phase = truth[{s.block, s.warp * 32 + unsigned(__builtin_ctz(s.lanes))}].back().phase;
    EXPECT_EQ(arrive(s, threads), phase);
    s.step = 3;
  } else if (meeting(s).phase >= awaited(s)) {
    return next(s);
  }
  return false;
}

// It takes room when it has succeeded.
bool World::step_of_wait(Strand& s) {
  const ptx::Slot& slot = code_->slot(object_wait);
  if (s.step == 0) {
    s.before = ticket_;
    s.step = 1;
  } else if (s.step == 1) {
    s.step = meeting(s).phase >= awaited(s) ? 2 : 0;
  } else if (s.step == 2) {
    reserve(s);
    s.step = 3;
  } else {
    put(bytes_of(s), slot.offset, s.before);
    for (unsigned l = 0; l < 32; ++l) {
      if (s.lanes >> l & 1) put_address(s, l, 64);
      put(bytes_of(s), slot.operand + 4 * l, (awaited(s) - 1) & 1);
    }
    all(s, {object_wait, 0, 0, 0, awaited(s) - 1, false, 0});
    put(bytes_of(s), slot.offset + 8, ticket_++);
    publish(s);
    return next(s);
  }
  return false;
}

bool World::step_of_tickets(Strand& s) {
  const What what = s.todo[s.at];
  const ptx::Slot& slot = code_->slot(what);
  switch (s.step++) {
    case 0:
      reserve(s);
      s.left = s.lanes;
      return false;
    case 1: put(bytes_of(s), slot.offset, ticket_++); return false;
    case 2: {
      if (what == object_init) {
        happened(s, 0, {});
        put_address(s, 0, 64);
        return false;
      }
      if (what == object_arrive) {
        all(s, {what, 0, 0, 0, arrive(s, threads), false, 0});
        for (unsigned l = 0; l < 32; ++l) {
          if (s.lanes >> l & 1) put_address(s, l, 64);
        }
        return false;
      }
      unsigned l = unsigned(random_() % 32); // one lane at a time
      while (!(s.left >> l & 1)) l = (l + 1) % 32;
      perform(s, slot, what, l);
      s.left &= ~(1u << l);
      if (s.left) s.step = 2;
      return false;
    }
    case 3: put(bytes_of(s), slot.offset + 8, ticket_++); return false;
    default: publish(s); return next(s);
  }
}

void World::perform(Strand& s, const ptx::Slot& slot, What what, unsigned l) {
  std::uint32_t which = std::uint32_t(random_() % options_.locations);
  if (options_.own && what != load) {
    which = s.block * warps + s.warp;
    if (l) return; // its guard is false
  }
  const std::uint64_t address = memory + 4 * which;
  Location& at = memory_[address];
  put_address(s, l, address);
  Event event;
  event.address = address;
  if (what != store) {
    event.read = at.value;
    event.seen = at.number;
    put(bytes_of(s), slot.value_read + 4 * l, at.value);
  }
  if (what != load) {
    // Values that were never there; sums, too, since they are larger than all that was.
    std::uint32_t operand = latest_[which] += 1 + std::uint32_t(random_() % 3);
    if (options_.leftover && !at.number) operand = latest_[which] = std::max(operand, first_value(which));
    if (options_.leftover && !at.number && what == store) operand = first_value(which);
    if (what == add) {
      operand = std::max(latest_[which], at.value + 1) - at.value;
      latest_[which] = at.value + operand;
    }
    put(bytes_of(s), slot.operand + 4 * l, operand);
    event.wrote = true;
    event.written = what == add ? at.value + operand : operand;
    if (what == compare) {
      const std::uint32_t compared = random_() % 2 ? at.value : at.value + 1;
      put(bytes_of(s), slot.compared + 4 * l, compared);
      event.wrote = compared == at.value;
      if (!event.wrote) event.written = 0;
    }
    if (event.wrote) {
      at.value = event.written;
      at.number = ++number_;
      numbers[{address, event.written}] = at.number;
    }
  }
  happened(s, l, event);
}

} // namespace deadheat::device_log::true_order
