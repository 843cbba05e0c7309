// Logs of launches that truly happened, in an order that is known: lanes of warps come apart and meet again, at
// barriers of blocks and clusters, at mbarriers and around strong accesses, in steps of random order with long sleeps
// between them, while the rings are drained. What is made of the log must agree with what happened: every lane's own
// order, every wait after the arrivals that it was for, and every strong read after the write that it saw, as the
// newest before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>

#include "tests/unit/device_log_rings.h"

namespace deadheat::device_log {
namespace {

constexpr std::uint32_t header = 32, lanes4 = 128, lanes8 = 256;
constexpr std::uint64_t memory = 0x1000;
constexpr std::uint32_t blocks = 4, warps = 2, threads = 64, in_cluster = 2; // of a block: 64 threads, 2 warps

enum What : std::uint32_t {
  load,
  store,
  exchange,
  add,
  compare,
  cluster_arrive,
  cluster_wait,
  barrier,
  named_barrier, // of both warps
  named_arrive,
  object_init,
  object_arrive,
  object_wait, // by parity
  leave
};

struct Code {
  std::vector<ptx::Segment> segments;
  std::vector<Site> sites;

  Code() {
    using Kind = ptx::Slot::Kind;
    auto add = [&](const char* opcode, SiteKind kind, ptx::Slot slot, std::uint32_t bytes,
                   AccessKind access = AccessKind::read) {
      Site site;
      site.id = slot.site = std::uint32_t(sites.size());
      site.kind = kind;
      site.opcode = opcode;
      site.access = access;
      site.space = kind == SiteKind::mbarrier ? Space::shared : Space::global;
      site.ordering = kind == SiteKind::access ? Ordering::relaxed : Ordering::weak;
      site.element_bytes = 4;
      site.wait_only = site.opcode.find("wait") != std::string::npos;
      slot.offset = header;
      ptx::Segment segment;
      segment.bytes = header + bytes;
      segment.ends = kind == SiteKind::exit;
      segment.slots.push_back(slot);
      segments.push_back(segment);
      sites.push_back(site);
    };
    ptx::Slot strong;
    strong.kind = Kind::strong;
    strong.valued = strong.short_values = true;
    strong.address = header + 32;
    const std::uint32_t bytes = 32 + lanes8 + 3 * lanes4;
    const std::uint32_t first = strong.address + lanes8, second = first + lanes4, third = second + lanes4;
    strong.value_read = first;
    add("ld.relaxed.gpu.global.u32", SiteKind::access, strong, bytes);
    strong.value_read = 0;
    strong.operand = second;
    add("st.relaxed.gpu.global.u32", SiteKind::access, strong, bytes, AccessKind::write);
    strong.value_read = first;
    add("atom.relaxed.gpu.global.exch.b32", SiteKind::access, strong, bytes, AccessKind::atomic);
    add("atom.relaxed.gpu.global.add.u32", SiteKind::access, strong, bytes, AccessKind::atomic);
    strong.compares = true;
    strong.compared = third;
    add("atom.relaxed.gpu.global.cas.b32", SiteKind::access, strong, bytes, AccessKind::atomic);
    ptx::Slot event, block;
    event.kind = Kind::event;
    add("barrier.cluster.arrive", SiteKind::cluster_barrier, event, 0);
    add("barrier.cluster.wait", SiteKind::cluster_barrier, event, 0);
    block.kind = Kind::barrier;
    block.number_known = block.threads_known = true;
    add("barrier.sync", SiteKind::barrier, block, 0);
    block.number = 1;
    block.threads = threads;
    add("barrier.sync", SiteKind::barrier, block, 0);
    add("barrier.arrive", SiteKind::barrier, block, 0);
    sites.back().arrive_only = true;
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
    add("exit", SiteKind::exit, event, 0);
  }
};

// What a lane did, and what its record must say.
struct Event {
  What what = load;
  std::uint64_t address = 0;
  std::uint32_t read = 0, written = 0, phase = 0;
  bool wrote = false;
  std::uint32_t seen = 0; // the write that was read: its number; 0: what was there at first
  friend bool operator==(const Event& a, const Event& b) {
    return a.what == b.what && a.address == b.address && a.read == b.read && a.written == b.written &&
           a.phase == b.phase && a.wrote == b.wrote;
  }
};
using Lane = std::pair<std::uint32_t, std::uint32_t>; // block, thread

// Follows the records as the analyzer does.
struct Checker final : Output {
  struct Write {
    std::uint64_t place = 0;
    std::uint32_t value = 0, number = 0;
  };
  std::map<Lane, std::vector<Event>>& truth;
  std::map<Lane, std::size_t> at;
  std::map<std::uint64_t, std::vector<Write>> writes; // by location, as they came
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> arrived; // at a cluster's phase, a block's object's
  std::map<Lane, std::uint32_t> written; // numbers of writes
  std::uint64_t edges_lost = 0, disorder = 0, events = 0, inexact = 0;
  bool unique = true; // no value is written to a location twice
  const std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t>* numbers = nullptr;

  explicit Checker(std::map<Lane, std::vector<Event>>& t) : truth(t) {}

  const Event* next(Lane lane, const Event& said) {
    ++events;
    std::vector<Event>& list = truth[lane];
    std::size_t& place = at[lane];
    if (place == list.size() || !(list[place] == said)) {
      ++disorder;
      return nullptr;
    }
    return &list[place++];
  }
  void access(const trace::AccessView& a) override {
    std::vector<unsigned> lanes;
    for (unsigned l = 0; l < 32; ++l) {
      if (a.mask >> l & 1) lanes.push_back(l);
    }
    std::sort(lanes.begin(), lanes.end(), [&](unsigned x, unsigned y) {
      return a.order_first[x] < a.order_first[y];
    }); // (analyzer/detect/batch.cpp)
    for (unsigned l : lanes) {
      const bool wrote = a.wrote >> l & 1;
      const What what = What(a.site);
      const Event* event =
          next({a.warp.block, a.warp.warp * 32 + l}, {what, a.address[l], std::uint32_t(a.value_read[l]),
                                                      wrote ? std::uint32_t(a.value_written[l]) : 0, 0, wrote, 0});
      if (!event) continue;
      std::vector<Write>& here = writes[a.address[l]];
      inexact += a.order_first[l] != a.order_last[l];
      if (what != store && event->seen) { // (Causality::observed_write)
        const Write* seen = nullptr;
        for (auto w = here.rbegin(); w != here.rend() && !seen; ++w) {
          if (a.order_first[l] == a.order_last[l] ? w->place < a.order_first[l]
                                                  : w->place < a.order_last[l] && w->value == a.value_read[l]) {
            seen = &*w;
          }
        }
        edges_lost += !seen || seen->value != a.value_read[l] || (unique && seen->number != event->seen);
      }
      if (wrote) here.push_back({a.order_last[l], event->written, unique ? number_of(*event) : 0});
    }
  }
  std::uint32_t number_of(const Event& e) const {
    auto found = numbers->find({e.address, e.written});
    return found == numbers->end() ? 0 : found->second;
  }
  void record(const trace::Record& record) override {
    if (auto* r = std::get_if<trace::ClusterBarrier>(&record)) {
      each(r->warp, r->mask, {r->wait ? cluster_wait : cluster_arrive, 0, 0, 0, r->phase, false, 0});
      std::uint32_t& count = arrived[{r->warp.block / in_cluster, r->phase}];
      if (r->wait)
        disorder += count != threads * in_cluster;
      else
        count += std::uint32_t(__builtin_popcount(r->mask));
    } else if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
      for (std::uint32_t t = 0; t < threads; ++t) next({r->block, t}, of_barrier(r->barrier, r->phase));
    } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
      each(r->warp, r->mask, {r->sync ? named_barrier : named_arrive, 0, 0, 0, r->phase, false, 0});
      arrived[{2000 + r->warp.block, r->phase}] += std::uint32_t(__builtin_popcount(r->mask));
    } else if (auto* r = std::get_if<trace::BarrierComplete>(&record)) {
      disorder += arrived[{2000 + r->block, r->phase}] != threads;
    } else if (auto* r = std::get_if<trace::Mbarrier>(&record)) {
      const What what = r->what == trace::Mbarrier::What::init     ? object_init
                        : r->what == trace::Mbarrier::What::arrive ? object_arrive
                                                                   : object_wait;
      for (unsigned l = 0; l < 32; ++l) {
        if (!(r->mask >> l & 1)) continue;
        next({r->warp.block, r->warp.warp * 32 + l}, {what, 0, 0, 0, r->phase[l], false, 0});
        std::uint32_t& count = arrived[{1000 + r->warp.block, r->phase[l]}];
        if (what == object_wait) disorder += count != threads;
        count += what == object_arrive;
      }
    } else if (auto* r = std::get_if<trace::ThreadExit>(&record)) {
      each(r->warp, r->mask, {leave, 0, 0, 0, 0, false, 0});
    }
  }
  static Event of_barrier(std::uint32_t number, std::uint32_t phase) {
    return {number ? named_barrier : barrier, 0, 0, 0, phase, false, 0};
  }
  void each(const trace::Warp& warp, std::uint32_t mask, const Event& event) {
    for (unsigned l = 0; l < 32; ++l) {
      if (mask >> l & 1) next({warp.block, warp.warp * 32 + l}, event);
    }
  }
};

struct Options {
  unsigned seed = 0;
  std::uint32_t stages = 12;
  bool parted = true; // lanes of a warp come apart
  bool objects = false; // mbarriers: these launches are put in order at their end
  unsigned writers = 2; // of 8 strong accesses so many are not loads
  bool atomics = true, stores = true;
  std::uint32_t locations = 3;
  bool own = false; // each location is written by one thread only: then nothing is a guess
  bool leftover = false; // locations hold at first what will be stored there
  bool early = true; // settled while it runs
};

class World {
 public:
  explicit World(const Options& options) : options_(options), random_(options.seed) {
    shape_.launch = 1;
    shape_.blocks = blocks;
    shape_.threads = threads;
    shape_.grid = {blocks, 1, 1};
    shape_.cluster = {in_cluster, 1, 1};
    shape_.strong = true;
    shape_.segments = &code_.segments;
    shape_.sites = &code_.sites;
    for (std::uint32_t c = 0; c < options.locations; ++c) {
      if (options.leftover) memory_[memory + 4 * c].value = first_value(c);
    }
    for (std::uint32_t b = 0; b < blocks; ++b) {
      for (std::uint32_t w = 0; w < warps; ++w) part(b, w, 0);
    }
  }

  void run(Checker& checker) {
    checker.numbers = &numbers_;
    LaunchLog log(shape_, checker);
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

  std::map<Lane, std::vector<Event>> truth;
  std::uint64_t settled = 0, guessed = 0;

 private:
  struct Strand { // lanes of a warp that go together
    std::uint32_t block = 0, warp = 0, lanes = 0, stage = 0;
    std::vector<What> todo;
    std::size_t at = 0, segment = 0; // in its ring
    unsigned step = 0, sleeps = 0;
    std::uint32_t left = 0; // lanes that have yet to perform it
    std::uint64_t before = 0;
  };
  struct Location {
    std::uint32_t value = 0, number = 0;
  };
  struct Meeting { // a barrier's
    std::uint32_t here = 0, phase = 0;
    std::map<Lane, std::uint32_t> arrivals; // how often
  };

  static std::uint32_t first_value(std::uint32_t location) { return 1 + location; }

  // The warp's lanes that go together in a stage, each part with what it does.
  void part(std::uint32_t block, std::uint32_t warp, std::uint32_t stage) {
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

  What strong() {
    if (random_() % 8 >= options_.writers) return load;
    const unsigned kind = unsigned(random_() % 6);
    if (!options_.atomics || (kind < 3 && options_.stores)) return store;
    return kind % 3 == 0 ? exchange : kind % 3 == 1 ? add : compare;
  }

  // Lanes whose stage is over. They meet again before they come apart otherwise.
  void free(const Strand& strand) {
    std::uint32_t& lanes = over_[{strand.block, strand.warp}];
    lanes |= strand.lanes;
    if (~lanes) return;
    lanes = 0;
    if (strand.stage < options_.stages) part(strand.block, strand.warp, strand.stage + 1);
  }

  template <typename T> void put(Strand& s, std::uint32_t offset, T value) {
    std::memcpy(rings_[s.block % rings_.size()].segments[s.segment].bytes.data() + offset, &value, sizeof value);
  }
  void reserve(Strand& s) {
    Ring& ring = rings_[s.block % rings_.size()];
    s.segment = ring.reserve(code_.segments[s.todo[s.at]].bytes);
    SegmentHeader head;
    head.segment = s.todo[s.at];
    head.block = s.block;
    head.warp = s.warp;
    head.mask = s.lanes;
    put(s, 0, head);
    for (unsigned l = 0; l < 32; ++l) put_address(s, l, ~std::uint64_t(0));
  }
  void put_address(Strand& s, unsigned lane, std::uint64_t address) {
    const ptx::Slot& slot = code_.segments[s.todo[s.at]].slots[0];
    if (!slot.address) return;
    if (slot.narrow)
      put(s, slot.address + 4 * lane, std::uint32_t(address));
    else
      put(s, slot.address + 8 * lane, address);
  }
  void publish(Strand& s) { rings_[s.block % rings_.size()].segments[s.segment].whole = true; }
  void happened(const Strand& s, unsigned lane, Event event) {
    event.what = s.todo[s.at];
    truth[{s.block, s.warp * 32 + lane}].push_back(event);
  }
  void all(const Strand& s, Event event = {}) {
    for (unsigned l = 0; l < 32; ++l) {
      if (s.lanes >> l & 1) happened(s, l, event);
    }
  }
  Meeting& meeting(const Strand& s) {
    const What what = s.todo[s.at];
    const bool of_cluster = what == cluster_arrive || what == cluster_wait;
    const bool of_object = what == object_arrive || what == object_wait;
    const std::uint32_t number = of_cluster ? 0u : of_object ? 1u : what == barrier ? 2u : 3u;
    return meetings_[{number, of_cluster ? s.block / in_cluster : s.block}];
  }
  // The phase in which it arrived.
  std::uint32_t arrive(Strand& s, std::uint32_t wanted) {
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
  std::uint32_t awaited(Strand& s) { // the number of phases that must be complete
    return meeting(s).arrivals[{s.block, s.warp * 32 + unsigned(__builtin_ctz(s.lanes))}];
  }
  bool next(Strand& s) {
    s.step = 0;
    return ++s.at == s.todo.size();
  }

  // True: it has done all.
  bool step(Strand& s) {
    if (s.at == s.todo.size()) return true;
    const What what = s.todo[s.at];
    const ptx::Slot& slot = code_.segments[what].slots[0];
    switch (what) {
      case barrier:
      case named_barrier:
        if (s.step == 0) {
          reserve(s);
          s.step = 1;
        } else if (s.step == 1) {
          publish(s);
          s.step = 2;
        } else if (s.step == 2) {
          all(s, {what, 0, 0, 0, arrive(s, threads), false, 0});
          s.step = 3;
        } else if (meeting(s).phase >= awaited(s)) {
          return next(s);
        }
        return false;
      case named_arrive:
      case cluster_arrive:
        if (s.step++ == 0) {
          reserve(s);
          return false;
        }
        all(s, {what, 0, 0, 0, arrive(s, what == named_arrive ? threads : threads * in_cluster), false, 0});
        publish(s);
        return next(s);
      case cluster_wait:
        if (s.step == 0) {
          reserve(s);
          publish(s);
          s.step = 1;
        } else if (meeting(s).phase >= awaited(s)) {
          all(s, {what, 0, 0, 0, awaited(s) - 1, false, 0});
          return next(s);
        }
        return false;
      case leave:
        reserve(s);
        all(s);
        publish(s);
        return next(s);
      case object_wait: // it takes room when it has succeeded
        if (s.step == 0) {
          s.before = ticket_;
          s.step = 1;
        } else if (s.step == 1) {
          s.step = meeting(s).phase >= awaited(s) ? 2 : 0;
        } else if (s.step == 2) {
          reserve(s);
          s.step = 3;
        } else {
          put(s, slot.offset, s.before);
          for (unsigned l = 0; l < 32; ++l) {
            if (s.lanes >> l & 1) put_address(s, l, 64);
            put(s, slot.operand + 4 * l, (awaited(s) - 1) & 1);
          }
          all(s, {what, 0, 0, 0, awaited(s) - 1, false, 0});
          put(s, slot.offset + 8, ticket_++);
          publish(s);
          return next(s);
        }
        return false;
      default: break;
    }
    switch (s.step++) { // with two tickets
      case 0:
        reserve(s);
        s.left = s.lanes;
        return false;
      case 1: put(s, slot.offset, ticket_++); return false;
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
      case 3: put(s, slot.offset + 8, ticket_++); return false;
      default: publish(s); return next(s);
    }
  }

  void perform(Strand& s, const ptx::Slot& slot, What what, unsigned l) {
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
      put(s, slot.value_read + 4 * l, at.value);
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
      put(s, slot.operand + 4 * l, operand);
      event.wrote = true;
      event.written = what == add ? at.value + operand : operand;
      if (what == compare) {
        const std::uint32_t compared = random_() % 2 ? at.value : at.value + 1;
        put(s, slot.compared + 4 * l, compared);
        event.wrote = compared == at.value;
        if (!event.wrote) event.written = 0;
      }
      if (event.wrote) {
        at.value = event.written;
        at.number = ++number_;
        numbers_[{address, event.written}] = at.number;
      }
    }
    happened(s, l, event);
  }

  const Options options_;
  std::mt19937 random_;
  const Code code_;
  Shape shape_;
  std::vector<Strand> strands_;
  std::array<Ring, 2> rings_;
  std::map<std::uint64_t, Location> memory_;
  std::map<std::uint32_t, std::uint32_t> latest_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> numbers_; // of writes, by location and value
  std::map<std::pair<std::uint32_t, std::uint32_t>, Meeting> meetings_;
  std::map<Lane, std::uint32_t> over_; // lanes, by warp
  std::uint64_t ticket_ = 1, steps_ = 0;
  std::uint32_t number_ = 0;
};

void check(const Options& options) {
  World world(options);
  Checker checker(world.truth);
  checker.unique = !options.leftover;
  world.run(checker);
  if (testing::Test::HasFatalFailure()) return;
  std::uint64_t events = 0, missing = 0;
  for (const auto& [lane, list] : world.truth) {
    events += list.size();
    missing += list.size() - checker.at[lane];
  }
  EXPECT_EQ(checker.disorder, 0u) << "seed " << options.seed;
  EXPECT_EQ(missing, 0u) << "seed " << options.seed;
  EXPECT_EQ(checker.events, events) << "seed " << options.seed;
  EXPECT_EQ(checker.edges_lost, 0u) << "seed " << options.seed;
  if (options.own || !options.stores) {
    EXPECT_EQ(world.guessed, 0u) << "seed " << options.seed;
    EXPECT_EQ(checker.inexact, 0u) << "seed " << options.seed;
  }
  if (options.early && !options.objects) {
    EXPECT_GT(world.settled, 0u);
  }
}

class TrueOrder : public testing::TestWithParam<unsigned> {};

TEST_P(TrueOrder, BarriersOfWarpsThatStayTogether) {
  check({.seed = GetParam(), .parted = false, .writers = 8, .stores = false});
}
TEST_P(TrueOrder, BarriersOfPartedWarps) { check({.seed = GetParam(), .writers = 8, .stores = false}); }
TEST_P(TrueOrder, ObjectsOfPartedWarps) {
  check({.seed = GetParam(), .objects = true, .writers = 8, .stores = false, .early = false});
}

TEST_P(TrueOrder, OneWriterOfEachLocation) {
  check({.seed = GetParam(), .writers = 3, .locations = blocks * warps, .own = true});
}
TEST_P(TrueOrder, Stores) { check({.seed = GetParam(), .writers = 2, .atomics = false, .locations = 6}); }
TEST_P(TrueOrder, StoresAndAtomics) { check({.seed = GetParam(), .writers = 4}); }
TEST_P(TrueOrder, ManyWrites) { check({.seed = GetParam(), .writers = 7, .locations = 2}); }
TEST_P(TrueOrder, WhatWasThereIsStored) {
  check({.seed = GetParam(), .stages = 2, .writers = 1, .atomics = false, .locations = 24, .leftover = true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, TrueOrder, testing::Range(1u, 25u));

} // namespace
} // namespace deadheat::device_log
