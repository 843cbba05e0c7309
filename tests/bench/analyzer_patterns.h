// Synthetic logs for the analyzer's benchmarks: one launch whose blocks follow a pattern, made up chunk by chunk at
// hardly any cost, so that what is measured is the analysis. tsan_patterns.cpp has the same patterns as plain threads.
//
// Thread-safety: play() may be called from several threads at once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "analyzer/detect/pipeline.h"
#include "deadheat/address.h"
#include "tests/bench/launch_record.h"
#include "tracer/recorder/access_view.h"

namespace deadheat::bench {

enum class Pattern {
  tiled,     // coalesced loads, stores to shared memory, rows and broadcasts of it, barriers, coalesced stores
  scattered, // every lane reads some word of a table
  bytes,     // every lane reads some byte of a table
  atomics,   // every lane adds to some counter
  far_words, // every lane writes a word far from all others: next to no two in a page
  far_bytes, // the same with bytes
  far_atomics, // every lane adds to such a word
  far_rows,    // every warp writes a row of 128 bytes far from all others
  far_short,   // the same with rows of 32 and of 64 bytes in turn
  far_mixed,   // every lane adds to a word far from all others, and reads it
  far_turns,   // in turns between barriers, a block's lanes write far words, add to them, read them, add to them
  far_initial, // the same: they write words, add to them twice, read them
  ring,        // one thread fills three stages of shared memory by bulk copies, seven warps read; mbarriers go around
  staged,      // warps fill three stages by cp.async and read each other's part behind barriers
  far_handed,   // every lane writes such a word; in a second launch a warp reads what one warp has written
  far_permuted, // the same; in a second launch every lane reads some lane's word
  handed,       // as far_permuted, of two neighbouring words one
  far_zeroed,   // every lane writes such a word; in a second launch every lane adds to one of them
  far_counted,  // every lane adds to such a word; in a second launch every lane reads one of them
  row_zeroed, // every warp writes a row of 128 bytes far from all others; in a second launch lanes add to their words
};
inline constexpr Pattern patterns[] = {
    Pattern::tiled,        Pattern::scattered,   Pattern::bytes,      Pattern::atomics,     Pattern::far_words,
    Pattern::far_bytes,    Pattern::far_atomics, Pattern::far_rows,   Pattern::far_short,   Pattern::far_mixed,
    Pattern::far_turns,    Pattern::far_initial, Pattern::ring,       Pattern::staged,      Pattern::far_handed,
    Pattern::far_permuted, Pattern::handed,      Pattern::far_zeroed, Pattern::far_counted, Pattern::row_zeroed};
inline const char* name_of(Pattern pattern) {
  static constexpr const char* names[] = {"tiled",        "scattered",   "bytes",      "atomics",     "far_words",
                                          "far_bytes",    "far_atomics", "far_rows",   "far_short",   "far_mixed",
                                          "far_turns",    "far_initial", "ring",       "staged",      "far_handed",
                                          "far_permuted", "handed",      "far_zeroed", "far_counted", "row_zeroed"};
  return names[std::size_t(pattern)];
}

inline constexpr std::uint32_t warps = 8, lanes = 32;
inline constexpr std::uint32_t turns = 8; // of a block
inline constexpr std::uint64_t table_bytes = std::uint64_t(1) << 26; // 64 MB
inline constexpr std::uint64_t byte_table_bytes = std::uint64_t(1) << 22; // 4 MB
inline constexpr std::uint32_t counters = 1 << 16;
inline constexpr std::uint64_t far_apart = std::uint64_t(1) << 13; // bytes from one to the next
// Accesses of a warp in a turn, as warps count them.
inline std::uint32_t per_turn(Pattern pattern) { return pattern == Pattern::tiled ? 25 : 16; }
inline std::uint64_t per_block(Pattern pattern) { return std::uint64_t(warps) * lanes * turns * per_turn(pattern); }
// Some number; tsan_patterns.cpp uses the same.
inline std::uint32_t scatter(std::uint64_t i) {
  i *= 0x9e3779b97f4a7c15u;
  i ^= i >> 32;
  return std::uint32_t((i * 0xd6e8feb86659fd93u) >> 32);
}

class PatternSource final : public detect::Source {
 public:
  PatternSource(Pattern pattern, std::uint64_t accesses)
      : pattern_(pattern), blocks_(std::uint32_t(std::max<std::uint64_t>(2, accesses / per_block(pattern)))) {
    if (in_two()) blocks_ = std::max(2 * blocks_per_chunk, std::bit_floor(blocks_));
  }
  std::uint64_t accesses() const { return blocks_ * per_block(pattern_); }
  std::size_t chunks() const override { return (blocks_ + blocks_per_chunk - 1) / blocks_per_chunk; }

  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    if (chunk == 0) begin(visitor);
    if (in_two() && chunk == chunks() / 2) {
      say(visitor, trace::OperationEnd{1});
      launch(visitor, 2);
    }
    const std::uint32_t first = std::uint32_t(chunk) * blocks_per_chunk;
    for (std::uint32_t block = first; block < std::min(blocks_, first + blocks_per_chunk); ++block) {
      Warp warp(visitor, launch_of(block), block_of(block));
      for (std::uint32_t turn = 0; turn < turns; ++turn) this->turn(warp, block, turn);
      for (std::uint32_t w = 0; w < warps; ++w) {
        trace::ThreadExit exit;
        exit.warp = {launch_of(block), block_of(block), w};
        exit.mask = ~0u;
        say(visitor, exit);
      }
    }
    if (chunk + 1 == chunks()) say(visitor, trace::OperationEnd{in_two() ? 2u : 1u});
  }

 private:
  // Half of the blocks are a second launch's.
  bool in_two() const { return pattern_ >= Pattern::far_handed; }
  std::uint32_t launch_of(std::uint32_t block) const { return in_two() && block >= blocks_ / 2 ? 2 : 1; }
  std::uint32_t block_of(std::uint32_t block) const { return in_two() ? block % (blocks_ / 2) : block; }
  static constexpr std::uint32_t blocks_per_chunk = 8;
  static constexpr std::uint64_t memory = 0xA000'0000'0000;
  enum Site : std::uint32_t {
    load,
    put,
    row,
    broadcast,
    store,
    gather,
    gather_byte,
    add,
    put_byte,
    bulk,
    object, // mbarrier
    copy,   // cp.async
    commit,
    wait,
    proxy_fence
  };

  static void say(trace::RecordVisitor& visitor, trace::Record record) { visitor.record(record); }

  void begin(trace::RecordVisitor& visitor) const {
    trace::Module module;
    module.id = 1;
    auto site = [&](AccessKind kind, Space space, unsigned bytes, Ordering ordering = Ordering::weak) {
      deadheat::Site at;
      at.id = std::uint32_t(module.sites.size());
      at.kind = SiteKind::access;
      at.access = kind;
      at.space = space;
      at.element_bytes = std::uint8_t(bytes);
      at.ordering = ordering;
      at.scope = ordering == Ordering::weak ? Scope::none : Scope::gpu;
      at.opcode = kind == AccessKind::atomic ? "atom.global.add.u32" : "ld.global.u32";
      at.source.push_back({"", "bench.cu", at.id + 1, 1});
      module.sites.push_back(at);
    };
    site(AccessKind::read, Space::global, 4);
    site(AccessKind::write, Space::shared, 4);
    site(AccessKind::read, Space::shared, 4);
    site(AccessKind::read, Space::shared, 4);
    site(AccessKind::write, Space::global, 4);
    site(AccessKind::read, Space::global, 4);
    site(AccessKind::read, Space::global, 1);
    site(AccessKind::atomic, Space::global, 4, Ordering::relaxed);
    site(AccessKind::write, Space::global, 1);
    auto other = [&](SiteKind kind, AccessKind access, unsigned bytes, Proxy proxy = Proxy::generic) {
      site(access, Space::shared, bytes);
      module.sites.back().kind = kind;
      module.sites.back().proxy = proxy;
    };
    other(SiteKind::bulk_copy, AccessKind::read, 4, Proxy::async);
    other(SiteKind::mbarrier, AccessKind::atomic, 8);
    other(SiteKind::async_copy, AccessKind::read, 4);
    other(SiteKind::async_commit, AccessKind::read, 0);
    other(SiteKind::async_wait, AccessKind::read, 0);
    other(SiteKind::proxy_fence, AccessKind::read, 0, Proxy::async);
    say(visitor, module);
    trace::Allocate allocation;
    allocation.allocation = 1;
    allocation.address = memory;
    allocation.bytes = std::uint64_t(1) << 38;
    say(visitor, allocation);
    launch(visitor, 1);
  }
  void launch(trace::RecordVisitor& visitor, std::uint32_t number) const {
    say(visitor, launch_record(number, in_two() ? blocks_ / 2 : blocks_, warps * lanes));
    say(visitor, trace::OperationBegin{number});
  }

  // The accesses of the warps of a block, as the reader gives them.
  class Warp {
   public:
    Warp(trace::RecordVisitor& visitor, std::uint32_t launch, std::uint32_t block) : visitor_(visitor) {
      view_.warp = {launch, block, 0};
      view_.module = 1;
      view_.mask = ~0u;
      view_.address = address_.data();
      view_.digest = digest_.data();
      view_.value_read = value_.data();
      view_.value_written = value_.data();
      view_.order_first = view_.order_last = order_.data();
      view_.wrote = ~0u;
    }
    void affine(std::uint32_t warp, std::uint32_t site, Space space, std::uint64_t first, std::int64_t stride,
                std::uint32_t mask = ~0u) {
      for (unsigned lane = 0; lane < lanes; ++lane) address_[lane] = first + std::uint64_t(stride) * lane;
      view_.affine = true;
      view_.strong = false;
      view_.stride = stride;
      view_.mask = mask;
      give(warp, site, space);
      view_.mask = ~0u;
    }
    template <typename Address>
    void each(std::uint32_t warp, std::uint32_t site, bool strong, Address&& address) {
      for (unsigned lane = 0; lane < lanes; ++lane) address_[lane] = address(lane);
      view_.affine = false;
      view_.strong = strong;
      if (strong) order_.fill(++ticket_);
      give(warp, site, Space::global);
    }
    void barrier(std::uint32_t phase) {
      say(visitor_, trace::BlockBarrier{view_.warp.launch, view_.warp.block, 0, phase, 1, 0});
    }

    template <typename Record>
    Record of(std::uint32_t warp, std::uint32_t site, std::uint32_t mask = ~0u) const {
      Record record;
      record.warp = {view_.warp.launch, view_.warp.block, warp};
      record.module = 1;
      record.site = site;
      record.mask = mask;
      return record;
    }
    void mbarrier(std::uint32_t warp, trace::Mbarrier::What what, std::uint32_t mask, std::uint64_t at,
                  std::uint32_t phase) {
      const bool completes = what == trace::Mbarrier::What::complete_tx;
      auto record = of<trace::Mbarrier>(warp, completes ? bulk : object, mask);
      record.what = what;
      record.block = view_.warp.block;
      record.ordering = what == trace::Mbarrier::What::test ? Ordering::acquire : Ordering::release;
      record.address.fill(at);
      record.phase.fill(phase);
      if (what == trace::Mbarrier::What::test) record.succeeded = mask;
      say(visitor_, record);
    }
    void say(trace::Record record) { PatternSource::say(visitor_, std::move(record)); }

   private:
    static void say(trace::RecordVisitor& visitor, trace::Record record) { visitor.record(record); }
    void give(std::uint32_t warp, std::uint32_t site, Space space) {
      view_.warp.warp = warp;
      view_.site = site;
      view_.space = space;
      visitor_.access(view_);
    }
    trace::RecordVisitor& visitor_;
    trace::AccessView view_;
    std::array<std::uint64_t, 32> address_{}, value_{}, order_{};
    std::array<std::uint32_t, 32> digest_{};
    std::uint64_t ticket_ = 0;
  };

  void turn(Warp& warp, std::uint32_t block, std::uint32_t turn) const {
    if (pattern_ == Pattern::tiled) {
      for (std::uint32_t w = 0; w < warps; ++w) {
        for (unsigned i = 0; i < 4; ++i) {
          const std::uint64_t from = (std::uint64_t(block) * turns + turn) * 4096 % table_bytes;
          warp.affine(w, load, Space::global, memory + from + 4 * (w * 128 + i * 32), 4);
          warp.affine(w, put, Space::shared, 4 * (w * 128 + i * 32), 4);
        }
      }
      warp.barrier(2 * turn);
      for (std::uint32_t w = 0; w < warps; ++w) {
        for (unsigned i = 0; i < 8; ++i) {
          warp.affine(w, row, Space::shared, 128 * i, 4);
          warp.affine(w, broadcast, Space::shared, 128 * w + 4 * i, 0);
        }
        warp.affine(w, store, Space::global, memory + table_bytes + 128 * (std::uint64_t(block) * warps + w), 4);
      }
      warp.barrier(2 * turn + 1);
      return;
    }
    if (pattern_ == Pattern::far_turns || pattern_ == Pattern::far_initial) return in_turns(warp, block, turn);
    if (pattern_ == Pattern::ring) return bulk_ring(warp, block, turn);
    if (pattern_ == Pattern::staged) return staged_copies(warp, block, turn);
    for (std::uint32_t w = 0; w < warps; ++w) {
      for (std::uint32_t i = 0; i < per_turn(pattern_); ++i) {
        const std::uint64_t at = (((std::uint64_t(block) * turns + turn) * warps + w) * per_turn(pattern_) + i) * lanes;
        switch (pattern_) {
          case Pattern::scattered:
            warp.each(w, gather, false,
                      [&](unsigned lane) { return memory + scatter(at + lane) % table_bytes / 4 * 4; });
            break;
          case Pattern::bytes:
            warp.each(w, gather_byte, false,
                      [&](unsigned lane) { return memory + scatter(at + lane) % byte_table_bytes; });
            break;
          case Pattern::far_words:
          case Pattern::far_bytes:
            warp.each(w, pattern_ == Pattern::far_words ? store : put_byte, false,
                      [&](unsigned lane) { return far(at + lane); });
            break;
          case Pattern::far_atomics: warp.each(w, add, true, [&](unsigned lane) { return far(at + lane); }); break;
          case Pattern::far_rows: warp.affine(w, store, Space::global, far(at / lanes), 4); break;
          case Pattern::far_short:
            warp.affine(w, store, Space::global, far(at / lanes), 4, i % 2 ? 0xFFFFu : 0xFFu);
            break;
          case Pattern::far_mixed:
            warp.each(w, i % 2 ? gather : add, i % 2 == 0,
                      [&](unsigned lane) { return far((at - i % 2 * lanes) / 2 + lane); });
            break;
          case Pattern::far_handed:
          case Pattern::far_permuted:
          case Pattern::handed:
          case Pattern::far_zeroed:
          case Pattern::far_counted:
          case Pattern::row_zeroed: give_or_take(warp, w, block, at); break;
          default:
            warp.each(w, add, true, [&](unsigned lane) { return memory + 4ull * (scatter(at + lane) % counters); });
        }
      }
    }
  }

  static constexpr std::uint32_t stages = 3;
  static constexpr std::uint64_t stage_bytes = 4096, objects = stages * stage_bytes;
  std::uint64_t tile_of(std::uint32_t block, std::uint32_t turn) const {
    return memory + (std::uint64_t(block) * turns + turn) * stage_bytes % table_bytes;
  }

  // Behind zeroes that all threads write.
  void bulk_ring(Warp& warp, std::uint32_t block, std::uint32_t turn) const {
    using What = trace::Mbarrier::What;
    const std::uint32_t stage = turn % stages, round = turn / stages;
    const std::uint64_t at = stage * stage_bytes, full = objects + 8 * stage, empty = full + 8 * stages;
    if (turn == 0) {
      for (std::uint32_t w = 0; w < warps; ++w) {
        for (std::uint64_t row = w; row < objects / 128; row += warps) warp.affine(w, put, Space::shared, 128 * row, 4);
        auto fence = warp.of<trace::Fence>(w, proxy_fence);
        fence.ordering = Ordering::acq_rel;
        fence.scope = Scope::none;
        fence.proxy = Proxy::async;
        warp.say(fence);
      }
      warp.barrier(0);
    }
    if (round) warp.mbarrier(0, What::test, 1, empty, round - 1);
    warp.mbarrier(0, What::arrive, 1, full, round);
    auto filled = warp.of<trace::BulkCopy>(0, bulk, 1);
    filled.source[0] = tile_of(block, turn);
    filled.destination[0] = shared_window + at;
    filled.mbarrier[0] = shared_window + full;
    filled.bytes[0] = stage_bytes;
    warp.say(filled);
    warp.mbarrier(0, What::complete_tx, 1, full, round);
    for (std::uint32_t w = 1; w < warps; ++w) {
      warp.mbarrier(w, What::test, ~0u, full, round);
      for (unsigned i = 0; i < 16; ++i) warp.affine(w, row, Space::shared, at + 128 * ((w - 1) * 4 + i % 4), 4);
      trace::WarpBarrier together;
      together.warp = {1, block, w};
      together.mask = ~0u;
      warp.say(together);
      warp.mbarrier(w, What::arrive, 1, empty, round);
    }
  }
  void staged_copies(Warp& warp, std::uint32_t block, std::uint32_t turn) const {
    const std::uint64_t at = turn % stages * stage_bytes;
    for (std::uint32_t w = 0; w < warps; ++w) {
      auto copied = warp.of<trace::AsyncCopy>(w, copy);
      copied.bytes = 16;
      for (unsigned lane = 0; lane < lanes; ++lane) {
        copied.source[lane] = tile_of(block, turn) + 512 * w + 16 * lane;
        copied.destination[lane] = at + 512 * w + 16 * lane;
        copied.source_bytes[lane] = 16;
      }
      warp.say(copied);
      warp.say(warp.of<trace::AsyncCommit>(w, commit));
      warp.say(warp.of<trace::AsyncWait>(w, wait));
    }
    warp.barrier(turn);
    for (std::uint32_t w = 0; w < warps; ++w)
      for (unsigned i = 0; i < 16; ++i) warp.affine(w, row, Space::shared, at + 128 * ((w * 4 + i) % 32), 4);
  }

  // A permutation of the numbers below `count`: of all below a power of two, until one comes that is.
  static std::uint64_t shuffled(std::uint64_t i, std::uint64_t count) {
    const std::uint64_t mask = std::bit_ceil(count) - 1;
    const int half = (std::bit_width(mask) + 1) / 2;
    do {
      for (int round = 0; round < 3; ++round) {
        i = i * 0x9e3779b97f4a7c15u & mask;
        i ^= i >> half;
      }
    } while (i >= count);
    return i;
  }
  // In no order, each once. By one product alone they would lie more evenly than any that a program chooses, for
  // whoever hashes by products, and a half of them less so.
  static std::uint64_t far(std::uint64_t number) {
    constexpr std::uint64_t count = 1 << 24;
    return memory + shuffled(number % count, count) * far_apart;
  }
  // Every phase goes over the same words, each time in another order.
  void in_turns(Warp& warp, std::uint32_t block, std::uint32_t turn) const {
    constexpr std::uint32_t phases = 4, phase_accesses = 16 / phases, words = warps * phase_accesses * lanes;
    const bool first_two = pattern_ == Pattern::far_initial;
    const std::uint32_t sites[phases] = {store, add, first_two ? add : gather, first_two ? gather : add};
    for (std::uint32_t phase = 0; phase < phases; ++phase) {
      for (std::uint32_t w = 0; w < warps; ++w) {
        for (std::uint32_t i = 0; i < phase_accesses; ++i) {
          warp.each(w, sites[phase], sites[phase] == add, [&](unsigned lane) {
            std::uint64_t slot = (w * phase_accesses + i) * lanes + lane;
            if (phase) slot = shuffled((slot + 77 * phase) % words, words);
            const std::uint64_t word = (std::uint64_t(block) * turns + turn) * words + slot;
            return far(word);
          });
        }
      }
      if (phase != 1 || !first_two) warp.barrier(turn * phases + phase);
    }
  }
  // Of patterns in two launches: words are written in one order, and read in another.
  void give_or_take(Warp& warp, std::uint32_t w, std::uint32_t block, std::uint64_t at) const {
    const std::uint64_t words = blocks_ / 2 * per_block(pattern_);
    const bool take = launch_of(block) == 2;
    auto row = [&](std::uint64_t number) { return memory + shuffled(number, words / lanes) * far_apart; };
    if (pattern_ == Pattern::row_zeroed) {
      if (!take) return warp.affine(w, store, Space::global, row(at % words / lanes), 4);
      return warp.each(w, add, true, [&](unsigned lane) {
        const std::uint64_t i = shuffled((at + lane) % words, words);
        return row(i / lanes) + 4 * (i % lanes);
      });
    }
    const bool adds = pattern_ == (take ? Pattern::far_zeroed : Pattern::far_counted);
    warp.each(w,
              adds   ? add
              : take ? gather
                     : store,
              adds, [&](unsigned lane) {
                std::uint64_t i = (at + lane) % words; // the place in the order of writing
                if (take) i = pattern_ == Pattern::far_handed ? (i + words / 2 + lanes) % words : shuffled(i, words);
                const std::uint64_t word = shuffled(i, words);
                return memory + (pattern_ == Pattern::handed ? 8 * word + 4 * (scatter(word) & 1) : word * far_apart);
              });
  }

  Pattern pattern_;
  std::uint32_t blocks_;
};

} // namespace deadheat::bench
