#include "tests/unit/order_oracle.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

namespace deadheat::test {

namespace {

using Relation = std::vector<std::bitset<most_events>>;

bool of_a_thread(const Event& e) { return e.kind != Event::Kind::launch_begin && e.kind != Event::Kind::launch_end; }
bool same_thread(const Event& a, const Event& b) {
  return a.block == b.block && a.thread == b.thread && of_a_thread(a) && of_a_thread(b);
}

class Axioms {
 public:
  explicit Axioms(const Execution& execution, bool needed_only = false)
      : execution_(execution),
        events_(execution.events),
        count_(events_.size()),
        program_(none()),
        observation_(none()),
        needed_only_(needed_only) {
    if (count_ > most_events) throw std::length_error("an execution of too many events");
    program_order();
    launch_order();
    reads_from();
    observation_order();
    certain_outcomes();
    for (const bool shared : {false, true}) {
      for (const bool read : {false, true}) {
        base_[shared][read] = base_causality(shared, read);
        causality_[shared][read] = causality(base_[shared][read]);
      }
    }
  }

  bool race(std::size_t a, std::size_t b) const {
    return unordered(a, b) && (async_proxy(a) != async_proxy(b) || !morally_strong(a, b));
  }
  bool strong_conflict(std::size_t a, std::size_t b) const { return unordered(a, b) && morally_strong(a, b); }
  // 8.2.1: overlap, of memory that both threads see.
  bool overlap(std::size_t a, std::size_t b) const {
    const Event &x = events_[a], &y = events_[b];
    if (!x.memory() || !y.memory() || x.shared != y.shared || (x.shared && x.memory_of() != y.memory_of()))
      return false;
    return x.address < y.address + y.bytes && y.address < x.address + x.bytes;
  }
  const Relation& base_behind_reads() const { return base_[false][true]; }
  bool before(std::size_t a, std::size_t b) const {
    return async_proxy(a) != async_proxy(b) ? across_proxies(a, b) : causality_[of_shared(a, b)][only_reads(a)][a][b];
  }

 private:
  bool unordered(std::size_t a, std::size_t b) const { return conflict(a, b) && !before(a, b) && !before(b, a); }
  // 9.7.13.4: what a fence with .sync_restrict orders as others do.
  bool of_shared(std::size_t a, std::size_t b) const { return events_[a].shared && events_[b].shared; }
  // What a bulk copy wrote is as good as read by who has observed it complete on an mbarrier.
  bool only_reads(std::size_t e) const {
    return events_[e].access == AccessKind::read || (bulk(e) && events_[events_[e].group].barrier);
  }
  bool asynchronous(std::size_t e) const { return bulk(e) || events_[e].kind == Event::Kind::copy; }
  bool bulk(std::size_t e) const { return events_[e].kind == Event::Kind::bulk; }
  bool async_proxy(std::size_t e) const { return bulk(e) && !events_[e].generic; }
  // 8.9.5, proxy-preserved base causality order, between the generic and the asynchronous proxy. What the one wrote
  // comes before the other's access with a proxy fence between. A completion that was observed implies one
  // (9.7.9.25.4); a generic read needs none: what it returned no later write can change.
  bool across_proxies(std::size_t x, std::size_t y) const {
    const Relation& base = base_[of_shared(x, y)][only_reads(x)];
    if (async_proxy(x) || !events_[x].writes()) return base[x][y];
    for (std::size_t fence = 0; fence < count_; ++fence) {
      const Event& by = events_[fence];
      // A launch is over with all that it wrote visible to all proxies, as is what came before its end.
      const bool kind = by.kind == Event::Kind::launch_end || makes_visible(by, events_[x].shared);
      if (kind && base[x][fence] && base[fence][y]) return true;
    }
    return false;
  }
  // 9.7.13.4: between accesses to shared memory, or to global memory. Of those of one direction, from the generic to
  // the asynchronous proxy, the one that releases what was accessed; the other synchronizes with it.
  static bool makes_visible(const Event& fence, bool shared) {
    if (fence.kind != Event::Kind::proxy_fence) return false;
    if (fence.one_way()) return fence.of_shared && shared && is_release(fence.ordering);
    return fence.relaxed || fence.shared == shared;
  }

  Relation none() const { return Relation(count_); }

  bool same_location(std::size_t a, std::size_t b) const {
    return overlap(a, b) && events_[a].address == events_[b].address && events_[a].bytes == events_[b].bytes;
  }
  // 8.7.1
  bool conflict(std::size_t a, std::size_t b) const {
    auto may_write = [](const Event& e) { return e.access != AccessKind::read; };
    return overlap(a, b) && (may_write(events_[a]) || may_write(events_[b]));
  }
  std::uint32_t device_of(const Event& e) const {
    return e.launch() < execution_.launches.size() ? execution_.launches[e.launch()].device : 0;
  }
  // 8.5
  bool in_scope(const Event& of, const Event& other) const {
    switch (of.scope) {
      case Scope::none: return false;
      case Scope::cta: return of.block == other.block;
      case Scope::cluster:
        return of.block / execution_.blocks_per_cluster == other.block / execution_.blocks_per_cluster;
      case Scope::gpu: return device_of(of) == device_of(other);
      default: return true;
    }
  }
  // 8.7
  bool morally_strong(std::size_t a, std::size_t b) const {
    const Event &x = events_[a], &y = events_[b];
    if (!x.strong() || !y.strong() || !in_scope(x, y) || !in_scope(y, x)) return false;
    return !x.memory() || !y.memory() || same_location(a, b);
  }

  // Beyond the letter (analyzer/order/causality.h): a load of a part of what an atomic operation stores observes it. A
  // compare-and-swap that failed has loaded.
  bool part_of_atomic(std::size_t whole, std::size_t part) const {
    const Event &x = events_[whole], &y = events_[part];
    return x.memory() && x.access == AccessKind::atomic && y.memory() && !y.writes() && overlap(whole, part) &&
           x.bytes <= 8 && y.bytes < x.bytes && y.address >= x.address && y.address + y.bytes <= x.address + x.bytes;
  }
  // 8.9.2: does read r observe what write w wrote, when it has read that?
  bool may_observe(std::size_t w, std::size_t r) const {
    const Event &x = events_[w], &y = events_[r];
    if (part_of_atomic(w, r)) return x.strong() && y.strong() && in_scope(x, y) && in_scope(y, x);
    return morally_strong(w, r);
  }
  // 8.9.4: may operation a synchronize with b, whose pattern reads by `read` what `seen` wrote?
  bool may_meet(std::size_t a, std::size_t b, std::size_t read, std::size_t seen) const {
    const Event &x = events_[a], &y = events_[b];
    if (part_of_atomic(seen, read)) return x.strong() && y.strong() && in_scope(x, y) && in_scope(y, x);
    return morally_strong(a, b);
  }

  // In no thread's program order.
  bool apart(std::size_t e) const {
    const Event::Kind kind = events_[e].kind;
    return asynchronous(e) || kind == Event::Kind::bulk_complete || kind == Event::Kind::copy_arrive;
  }
  // 8.9.1; the accesses of an asynchronous copy come after what precedes its issue, and before nothing (8.9.1.1).
  void program_order() {
    for (std::size_t b = 0; b < count_; ++b) {
      const std::size_t end = apart(b) ? events_[b].group + 1 : b;
      for (std::size_t a = 0; a < end; ++a) {
        program_[a][b] = same_thread(events_[a], events_[b]) && !apart(a);
        if (events_[b].continued && a + 1 == b) program_[a][b] = false;
      }
    }
  }
  // Of events of no thread: all of a launch comes between its begin and its end; streams order these.
  void launch_order() {
    using Kind = Event::Kind;
    for (std::size_t a = 0; a < count_; ++a) {
      for (std::size_t b = 0; b < count_; ++b) {
        const Event &x = events_[a], &y = events_[b];
        if (a != b && x.launch() == y.launch() && (x.kind == Kind::launch_begin || y.kind == Kind::launch_end))
          program_[a][b] = true;
        if (x.kind != Kind::launch_end || x.launch() == y.launch()) continue;
        const Launched& of = execution_.launches[y.launch()];
        if (y.kind == Kind::launch_begin && std::count(of.after.begin(), of.after.end(), x.launch()))
          program_[a][b] = true;
        if (y.kind == Kind::dependency_wait && of.primary == x.launch()) program_[a][b] = true;
      }
    }
  }
  // Elements of a vector are in no order that is specified (8.2.2). Where one releases or acquires, all count as having
  // done so: `f` of each.
  std::size_t first_element(std::size_t e) const {
    while (events_[e].continued) --e;
    return e;
  }
  template <typename F>
  void each_element(std::size_t e, F&& f) const {
    e = first_element(e);
    do {
      f(e++);
    } while (e < count_ && events_[e].continued);
  }

  // Which write each strong read saw, where it saw one write whole.
  void reads_from() {
    saw_.assign(count_, count_);
    for (std::size_t r = 0; r < count_; ++r) {
      if (!events_[r].reads()) continue;
      std::size_t seen = count_;
      bool whole = true;
      for (std::uint32_t byte = 0; byte < events_[r].bytes; ++byte) {
        std::size_t writer = count_;
        for (std::size_t w = 0; w < r; ++w) {
          const Event& e = events_[w];
          std::uint64_t at = events_[r].address + byte;
          if (e.writes() && overlap(w, r) && e.address <= at && at < e.address + e.bytes) writer = w;
        }
        if (byte == 0) seen = writer;
        whole = whole && writer == seen;
      }
      if (whole) saw_[r] = seen;
    }
  }

  // 8.9.2
  void observation_order() {
    for (std::size_t r = 0; r < count_; ++r) {
      std::size_t w = saw_[r];
      if (w == count_ || !may_observe(w, r)) continue;
      observation_[w][r] = true;
      if (events_[w].access != AccessKind::atomic) continue;
      for (std::size_t earlier = 0; earlier < w; ++earlier) {
        if (observation_[earlier][w]) observation_[earlier][r] = true; // w is Z
      }
    }
  }

  struct Pattern {
    std::size_t end, access;
  }; // of a release: first operation, write; of an acquire: last, read

  // 9.7.13.4: proxy fences of one direction can form release and acquire patterns.
  bool is_fence(std::size_t e) const { return events_[e].kind == Event::Kind::fence || events_[e].one_way(); }
  // 8.8
  std::vector<Pattern> release_patterns() const {
    std::vector<Pattern> patterns;
    for (std::size_t w = 0; w < count_; ++w) {
      if (!events_[w].writes() || !events_[w].strong()) continue;
      if (is_release(events_[w].ordering)) patterns.push_back({w, w});
      for (std::size_t e = 0; e < w; ++e) {
        if (!program_[e][w] || !is_release(events_[e].ordering)) continue;
        if (is_fence(e) || (events_[e].writes() && same_location(e, w))) patterns.push_back({e, w});
      }
    }
    return patterns;
  }
  std::vector<Pattern> acquire_patterns() const {
    std::vector<Pattern> patterns;
    for (std::size_t r = 0; r < count_; ++r) {
      if (!events_[r].reads() || !events_[r].strong() || events_[r].reduction) continue;
      if (is_acquire(events_[r].ordering)) patterns.push_back({r, r});
      for (std::size_t e = r + 1; e < count_; ++e) {
        if (!program_[r][e] || !is_acquire(events_[e].ordering)) continue;
        bool acquire = events_[e].reads() && !events_[e].reduction && same_location(r, e);
        if (is_fence(e) || acquire) patterns.push_back({e, r});
      }
    }
    return patterns;
  }

  // A test whose outcome nobody looks at orders only where it cannot fail: where somebody who looked has seen the phase
  // complete, before it. A read whose value nobody looks at orders only what it would have seen in any case: where
  // somebody who looked has read the same before it.
  void certain_outcomes() {
    using Kind = Event::Kind;
    bool more = false;
    for (const Event& event : events_) {
      certain_.push_back(!event.unused);
      more |= event.unused;
    }
    looked_before_.assign(count_, {});
    while (more) {
      more = false;
      const Relation base = base_causality(true, true);
      for (const bool shared : {false, true}) {
        for (const bool writes : {false, true}) more |= reads_before(shared, writes);
      }
      for (std::size_t test = 0; test < count_; ++test) {
        for (std::size_t looked = 0; looked < count_ && !certain_[test]; ++looked) {
          const Event& seen = events_[looked];
          if (seen.kind == Kind::mbarrier_test && !seen.unused && seen.barrier == events_[test].barrier &&
              seen.phase >= events_[test].phase && base[looked][test])
            certain_[test] = more = true;
        }
      }
    }
  }

  bool unused_read(std::size_t e) const { return events_[e].unused && events_[e].memory(); }
  // Fills in looked_before_ of those reads of such memory, before which such reads come.
  bool reads_before(bool shared, bool writes) {
    bool more = false;
    std::optional<Relation> base;
    for (std::size_t r = 0; r < count_; ++r) {
      for (std::size_t looked = 0; unused_read(r) && events_[r].shared == shared && looked < r; ++looked) {
        const Event& before = events_[looked];
        const bool as_strong = before.strong() && before.reads() && !before.reduction && !before.unused;
        if (!as_strong || !same_location(looked, r) || before.writes() != writes) continue;
        if (!base) base = base_causality(shared, !writes);
        if ((*base)[looked][r]) more |= looked_before_[r].insert(looked).second;
      }
    }
    return more;
  }
  Relation base_causality(bool shared, bool read) {
    Relation base = program_;
    if (std::any_of(events_.begin(), events_.end(), [](const Event& e) { return e.unused && e.memory(); })) {
      for (Relation before = none(); before != base;) { // what such a read observes depends on what comes before what
        before = base;
        synchronization(base, shared, read);
        close(base);
        fence_sc_order(base, needed_only_);
        close(base);
      }
      return base;
    }
    synchronization(base, shared, read);
    close(base);
    while (fence_sc_order(base, needed_only_)) close(base);
    return base;
  }
  // 8.8: what ends an acquire pattern that begins with a test: itself, or fences behind it.
  std::vector<std::size_t> acquire_ends(std::size_t test) const {
    if (!certain_[test]) return {};
    std::vector<std::size_t> ends;
    if (is_acquire(events_[test].ordering)) ends.push_back(test);
    for (std::size_t e = test + 1; e < count_; ++e) {
      if (is_fence(e) && program_[test][e] && is_acquire(events_[e].ordering)) ends.push_back(e);
    }
    return ends;
  }

  // A read that nobody looks at may have read what an earlier one did that somebody looked at, or what it did itself:
  // what comes before releases that the one observed, and before those that the other did, comes before it.
  void in_any_case(Relation& base, const Relation& before, const std::vector<Pattern>& releases,
                   const std::vector<Pattern>& acquires, bool shared) const {
    for (const Pattern& acquire : acquires) {
      const std::size_t read = acquire.access;
      if (!unused_read(read) || (!shared && events_[acquire.end].of_shared)) continue;
      const auto comes_before = [&](std::size_t e, std::size_t by, auto&& meets) {
        return std::any_of(releases.begin(), releases.end(), [&](const Pattern& release) {
          return (first_element(e) == first_element(release.end) || before[e][release.end]) &&
                 observation_[release.access][by] && (shared || !events_[release.end].of_shared) && meets(release.end);
        });
      };
      for (std::size_t looked : looked_before_[read]) {
        const std::size_t seen = saw_[looked];
        if (seen == count_ || !may_observe(seen, read)) continue; // had it read the same
        for (std::size_t e = 0; e < count_; ++e) {
          const auto observed = [&](std::size_t release) { return may_meet(release, acquire.end, read, seen); };
          const auto reaches = [&](std::size_t release) { return in_scope(events_[release], events_[read]); };
          if (comes_before(e, looked, observed) && comes_before(e, read, reaches))
            each_element(acquire.end, [&](std::size_t b) { base[e][b] = true; });
        }
      }
    }
  }

  // 8.9.4
  // `shared`: as far as accesses to shared memory are concerned. `read`: what comes after a read.
  void synchronization(Relation& base, bool shared, bool read) {
    const std::vector<Pattern> acquires = acquire_patterns(), releases = release_patterns();
    const Relation before = base;
    for (const Pattern& release : releases) {
      for (const Pattern& acquire : acquires) {
        if (!shared && (events_[release.end].of_shared || events_[acquire.end].of_shared)) continue;
        const std::size_t read = acquire.access;
        if (unused_read(read) || !observation_[release.access][read]) continue;
        if (!may_meet(release.end, acquire.end, read, saw_[read])) continue;
        each_element(release.end,
                     [&](std::size_t a) { each_element(acquire.end, [&](std::size_t b) { base[a][b] = true; }); });
      }
    }
    if (!needed_only_) in_any_case(base, before, releases, acquires, shared);
    for (std::size_t a = 0; a < count_; ++a) {
      for (std::size_t b = 0; b < count_; ++b) {
        const Event &x = events_[a], &y = events_[b];
        using Kind = Event::Kind;
        bool same_block = x.block == y.block;
        bool same_cluster = x.block / execution_.blocks_per_cluster == y.block / execution_.blocks_per_cluster;
        if (x.kind == Kind::arrive && y.kind == Kind::leave && same_block && x.barrier == y.barrier &&
            x.phase == y.phase) {
          base[a][b] = true;
        }
        bool group = (x.kind == Kind::block_barrier || x.kind == Kind::warp_barrier) && x.kind == y.kind;
        if (group && !x.relaxed && x.group == y.group && a != b)
          base[a][b] = true; // arrival of one, departure of the other
        if (x.kind == Kind::cluster_arrive && y.kind == Kind::cluster_wait && same_cluster && x.phase == y.phase) {
          if (!x.relaxed) base[a][b] = true;
          for (std::size_t e = 0; x.relaxed && e < a; ++e) { // 9.7.13.3: a fence before it does what it leaves out
            if (is_fence(e) && program_[e][a] && is_release(events_[e].ordering) &&
                events_[e].scope >= Scope::cluster && (shared || !events_[e].of_shared))
              base[e][b] = true;
          }
        }
        if (x.kind == Kind::copy && y.kind == Kind::copy_wait && a < b && same_thread(x, y) && waited(x.group, b)) {
          base[a][b] = true;
        }
        // 9.7.13.15: what arrived at a phase comes before whoever has seen it, or a later one, complete.
        if (x.kind == Kind::mbarrier_arrive && y.kind == Kind::mbarrier_test && x.barrier == y.barrier &&
            x.phase <= y.phase && a < b) {
          // 9.7.13.15.16, item 4: what follows the wait is not performed before, whoever arrived, with whatever scope.
          if (read && is_release(x.ordering) && is_acquire(y.ordering) && certain_[b]) base[a][b] = true;
          for (std::size_t release : release_ends(a)) {
            for (std::size_t acquire : acquire_ends(b)) {
              const Event &from = events_[release], &to = events_[acquire];
              if ((from.of_shared || to.of_shared) && !shared) continue;
              if (in_scope(x, y) && in_scope(y, x) && in_scope(from, to) && in_scope(to, from))
                base[release][acquire] = true;
            }
          }
        }
        if (bulk(a) && y.kind == Kind::bulk_wait && a < b && same_thread(x, y) && bulk_waited(x.group, b) &&
            (!y.relaxed || x.access == AccessKind::read)) {
          base[a][b] = true;
        }
        // 9.7.9.25.3: the arrival comes after all cp.async that its thread has issued, and after nothing else.
        if (x.kind == Kind::copy_arrive && y.kind == Kind::mbarrier_test && x.barrier == y.barrier &&
            x.phase <= y.phase && a < b) {
          for (std::size_t access = 0; access < a; ++access) {
            const Event& copied = events_[access];
            if (copied.kind != Kind::copy || !same_thread(copied, x) || copied.group >= a) continue;
            for (std::size_t acquire : acquire_ends(b)) base[access][acquire] = true;
          }
        }
        // complete_tx releases the copy's own accesses, where the object is.
        if (x.kind == Kind::bulk_complete && y.kind == Kind::mbarrier_test && x.barrier == y.barrier &&
            x.phase <= y.phase && a < b) {
          for (std::size_t access = 0; access < count_; ++access) {
            if (!bulk(access) || events_[access].group != x.group) continue;
            for (std::size_t acquire : acquire_ends(b)) base[access][acquire] = true;
          }
        }
      }
    }
  }
  // 8.9.3 and 8.10.1: where F1 comes before a write that a read observes which comes before F2, Fence-SC order can not
  // be the other way round; the write would come before itself in causality order. 8.9.4: F1 synchronizes with F2.
  // `needed_only`: only where F1 is in the block of the write, and F2 in that of the read.
  bool fence_sc_order(Relation& base, bool needed_only) const {
    auto sc = [&](std::size_t e) { return is_fence(e) && events_[e].ordering == Ordering::sc; };
    bool more = false;
    for (std::size_t first = 0; first < count_; ++first) {
      for (std::size_t second = 0; sc(first) && second < count_; ++second) {
        if (!sc(second) || base[first][second] || !morally_strong(first, second)) continue;
        for (std::size_t w = 0; w < count_ && !base[first][second]; ++w) {
          for (std::size_t r = 0; base[first][w] && r < count_; ++r) {
            if (!observation_[w][r] || events_[r].reduction || events_[r].unused || !base[r][second]) continue;
            if (needed_only && (events_[first].block != events_[w].block || events_[second].block != events_[r].block))
              continue;
            base[first][second] = more = true;
          }
        }
      }
    }
    return more;
  }
  // An arrival releases by itself, or ends the pattern of a fence before it (8.8).
  std::vector<std::size_t> release_ends(std::size_t arrival) const {
    std::vector<std::size_t> ends;
    if (is_release(events_[arrival].ordering)) ends.push_back(arrival);
    for (std::size_t e = 0; e < arrival; ++e) {
      if (is_fence(e) && program_[e][arrival] && is_release(events_[e].ordering)) ends.push_back(e);
    }
    return ends;
  }
  bool bulk_waited(std::size_t issue, std::size_t wait) const {
    if (events_[issue].barrier) return false; // it completes on an mbarrier
    std::uint32_t commits = 0;
    for (std::size_t e = issue; e < wait; ++e) {
      commits += events_[e].kind == Event::Kind::bulk_commit && same_thread(events_[e], events_[wait]);
    }
    return commits > events_[wait].phase;
  }
  // 9.7.9.25.3: is the group of the copy issued at `issue` none of the last `phase` groups committed before `wait`?
  bool waited(std::size_t issue, std::size_t wait) const {
    std::uint32_t commits = 0;
    for (std::size_t e = issue; e < wait; ++e) {
      commits += events_[e].kind == Event::Kind::copy_commit && same_thread(events_[e], events_[wait]);
    }
    return commits > events_[wait].phase;
  }

  void close(Relation& base) const {
    for (std::size_t via = 0; via < count_; ++via) {
      // What a copy completes is ordered "only with respect to" the copy, which itself comes after its issue (8.9.1.1).
      if (asynchronous(via)) continue;
      for (std::size_t a = 0; a < count_; ++a) {
        if (base[a][via]) base[a] |= base[via];
      }
    }
  }

  // 8.9.5
  Relation causality(const Relation& base) const {
    Relation causality = base;
    for (std::size_t a = 0; a < count_; ++a) {
      for (std::size_t via = 0; via < count_; ++via) {
        if (!observation_[a][via] || events_[via].reduction || events_[via].unused) continue;
        causality[a] |= base[via];
      }
    }
    return causality;
  }

  const Execution& execution_;
  const std::vector<Event>& events_;
  std::size_t count_;
  Relation program_, observation_;
  const bool needed_only_;
  std::vector<bool> certain_; // false: a test that may have failed for all that its thread does
  std::vector<std::set<std::size_t>> looked_before_; // of reads that nobody looks at: reads of others, looked at
  Relation causality_[2][2],
      base_[2][2]; // [1]: between accesses to shared memory; [][1]: of which the first only reads
  std::vector<std::size_t> saw_;
};

} // namespace

void run(Execution& execution) {
  std::map<std::tuple<bool, std::uint32_t, std::uint64_t>, std::uint8_t> memory; // shared, block, address → byte
  std::uint64_t next = 0;
  for (Event& event : execution.events) {
    if (!event.memory()) continue;
    auto at = [&](std::uint32_t byte) -> std::uint8_t& {
      return memory[{event.shared, event.shared ? event.memory_of() : 0, event.address + byte}];
    };
    event.value_read = 0;
    for (std::uint32_t byte = 0; byte < event.bytes && byte < 8; ++byte) {
      event.value_read |= std::uint64_t(at(byte)) << 8 * byte;
    }
    if (!event.writes()) continue;
    event.value_written = event.value_read;
    if (event.repeats) continue;
    // A value tells the write; of less than a word, 127 of them. What writes of other sizes make together tells none.
    ++next;
    event.value_written = 0;
    for (std::uint32_t byte = 0; byte < event.bytes; ++byte) {
      const std::uint64_t digit = event.bytes < 4 ? 1 + next % 127 : 128 | (next >> 7 * (byte % 4) & 127);
      at(byte) = std::uint8_t(digit);
      if (byte < 8) event.value_written |= digit << 8 * byte;
    }
  }
}

Overlaps overlaps(const Execution& execution, bool needed_only) {
  Axioms axioms(execution, needed_only);
  Overlaps found;
  for (std::size_t b = 0; b < execution.events.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (!axioms.overlap(a, b)) continue;
      if (axioms.race(a, b)) found.races.insert({a, b});
      if (axioms.strong_conflict(a, b)) found.strong.insert({a, b});
      if (axioms.before(a, b)) found.ordered.insert({a, b});
    }
  }
  return found;
}

EventPairs data_races(const Execution& execution, bool needed_only) { return overlaps(execution, needed_only).races; }

std::vector<std::vector<bool>> base_causality(const Execution& execution) {
  const Axioms axioms(execution);
  std::vector<std::vector<bool>> before(execution.events.size(), std::vector<bool>(execution.events.size()));
  for (std::size_t a = 0; a < before.size(); ++a) {
    for (std::size_t b = 0; b < before.size(); ++b) before[a][b] = axioms.base_behind_reads()[a][b];
  }
  return before;
}

} // namespace deadheat::test
