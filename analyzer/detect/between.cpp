#include "analyzer/detect/between.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "deadheat/lanes.h"

namespace deadheat::detect {

namespace {

// An access by its place and how often its thread had performed it before.
using Step = std::pair<PlaceId, std::size_t>;

std::map<Step, std::size_t> numbered(const std::vector<PlaceId>& places) {
  std::map<Step, std::size_t> steps;
  std::map<PlaceId, std::size_t> performed;
  for (std::size_t i = 0; i < places.size(); ++i) steps[{places[i], performed[places[i]]++}] = i;
  return steps;
}

// Where the thread accesses what it does at the end, by the same instruction: the end, and some before it.
std::vector<std::size_t> like_the_last(const std::vector<PlaceId>& places, const std::vector<std::uint64_t>& addresses,
                                       bool only_the_last) {
  constexpr std::size_t most = 32;
  std::vector<std::size_t> all;
  for (std::size_t i = places.size(); i-- > 0 && all.size() < (only_the_last ? 1 : most);)
    if (places[i] == places.back() && addresses[i] == addresses.back()) all.push_back(i);
  return all;
}

std::vector<Step> steps_of(const std::vector<PlaceId>& places) {
  std::vector<Step> steps;
  std::map<PlaceId, std::size_t> performed;
  for (PlaceId place : places) steps.emplace_back(place, performed[place]++);
  return steps;
}

void add(std::size_t from, std::size_t to, const std::vector<PlaceId>& places, std::vector<Gap>& gaps) {
  for (; from < to; ++from) gaps.push_back({places[from], places[from + 1]});
}

// Of threads that took different ways behind what they last did alike. The thread of `back` then comes to what `front`
// does first there.
std::vector<Gap> across(const std::vector<PlaceId>& back, const std::vector<PlaceId>& front) {
  const std::map<Step, std::size_t> done = numbered(back);
  std::size_t own = 0; // the first of `front` that `back` did not do
  for (const auto& [step, at] : numbered(front))
    if (done.count(step)) own = std::max(own, at + 1);
  own = std::min(own, front.size() - 1);
  std::vector<Gap> gaps{{back.back(), front[own]}};
  add(own, front.size() - 1, front, gaps);
  return gaps;
}

} // namespace

FunctionName function_name(const SourceFrame& frame) {
  std::string name = frame.function;
  const std::string unnamed = "(anonymous namespace)";
  for (std::size_t at; (at = name.find(unnamed)) != std::string::npos;) name.erase(at, unnamed.size());
  name.resize(std::min(name.size(), name.find_first_of("<(")));
  return {frame.file, name.substr(name.rfind(' ') + 1)};
}

Between::Between(const Detector& detector, const std::vector<FoundRace>& races)
    : detector_(detector), instances_(races.size()) {
  std::size_t followed = 0;
  for (std::size_t i = 0; i < races.size() && followed < most_races; ++i) {
    const FoundRace& race = races[i];
    const Site *first = detector.sides().place(race.first.place).site,
               *second = detector.sides().place(race.second.place).site;
    if (race.level == RaceLevel::stream || !first || !second) continue;
    if (first->kind != SiteKind::access || second->kind != SiteKind::access) continue;
    ++followed;
    note_functions(race);
    FoundRace::Instances chosen = chosen_instances(race);
    chosen.resize(std::min(chosen.size(), most_instances));
    if (std::find(chosen.begin(), chosen.end(), std::pair(race.first, race.second)) == chosen.end())
      chosen.insert(chosen.begin(), {race.first, race.second});
    for (const auto& [a, b] : chosen) {
      if (a.thread.operation() != b.thread.operation()) continue;
      instances_[i].push_back({a, b, {}, {}, false});
    }
    for (Instance& instance : instances_[i]) follow(instance);
  }
}

void Between::note_functions(const FoundRace& race) {
  std::set<FunctionName> of_first;
  for (const SourceFrame& frame : detector_.sides().place(race.first.place).site->source)
    of_first.insert(function_name(frame));
  for (const SourceFrame& frame : detector_.sides().place(race.second.place).site->source) {
    const FunctionName name = function_name(frame);
    if (functions_.size() < most_functions && of_first.contains(name))
      functions_.emplace(name, unsigned(functions_.size()));
  }
  between_calls_.resize(functions_.size());
}

// The functions that a place is in, itself or by what is inlined there.
Between::Functions Between::around(PlaceId place) {
  const auto [known, fresh] = around_.try_emplace(place, 0);
  const Site* site = fresh ? detector_.sides().place(place).site : nullptr;
  if (site)
    for (const SourceFrame& frame : site->source)
      if (const auto function = functions_.find(function_name(frame)); function != functions_.end())
        known->second |= Functions(1) << function->second;
  return known->second;
}

void Between::comes_to(Thread& thread, PlaceId place) {
  const Functions now = around(place);
  thread.called |= now;
  for (auto behind = thread.behind.begin(); behind != thread.behind.end();) {
    auto& [barrier, functions] = *behind;
    for (std::size_t bit = 0; bit < between_calls_.size(); ++bit)
      if (functions & now & Functions(1) << bit) between_calls_[bit].insert(barrier);
    functions &= ~now;
    behind = functions ? std::next(behind) : thread.behind.erase(behind);
  }
}

void Between::passes(Thread& thread, PlaceId barrier) {
  comes_to(thread, barrier);
  if (const Functions outside = thread.called & ~around(barrier)) thread.behind[barrier] |= outside;
}

// `warp`: of whose lanes in `mask` it is; null: of all of the block.
void Between::pass(std::uint32_t launch, std::uint32_t number, PlaceId barrier, const trace::Warp* warp,
                   std::uint32_t mask) {
  const order::OperationIndex operation = detector_.operation_of(launch);
  if (!operation || !barrier) return;
  const auto block = by_block_.find(order::ThreadKey(operation, number, 0).block_bits());
  if (block == by_block_.end()) return;
  for (auto& [in_block, lanes] : block->second) {
    if (warp && in_block != key_of(operation, *warp, 0).thread() / 32) continue;
    for (auto& [lane, thread] : lanes)
      if (mask >> lane & 1) passes(thread, barrier);
  }
}

const std::set<PlaceId>* Between::between_calls(const FunctionName& function) const {
  const auto known = functions_.find(function);
  return known == functions_.end() ? nullptr : &between_calls_[known->second];
}

void Between::follow(Instance& instance) {
  for (auto [side, steps] :
       {std::pair(&instance.first, &instance.before_first), {&instance.second, &instance.before_second}}) {
    const unsigned thread = side->thread.thread();
    Thread& followed = by_block_[side->thread.block_bits()][thread / 32][thread % 32];
    followed.sides.push_back({side->stamp, steps, &instance});
    followed.across_blocks |= !instance.one_block();
  }
}

bool Between::access(const trace::AccessView& view) {
  now_ += access_stamps; // stamps count exactly as in Batcher
  const order::OperationIndex operation = detector_.operation_of(view.warp.launch);
  const PlaceId place = detector_.sides().site(view.module, view.site);
  if (!operation || !place || !view.mask) return true;
  const auto block = by_block_.find(order::ThreadKey(operation, view.warp.block, 0).block_bits());
  if (block == by_block_.end()) return true;
  const auto warp = block->second.find(key_of(operation, view.warp, 0).thread() / 32);
  if (warp == block->second.end()) return true;
  for (auto& [lane, thread] : warp->second) {
    if (!(view.mask >> lane & 1)) continue;
    comes_to(thread, place);
    if (thread.sides.empty()) continue;
    thread.cut |= thread.steps.places.size() >= most_steps;
    if (!thread.cut) {
      thread.steps.places.push_back(place);
      thread.steps.addresses.push_back(view.address[lane]);
    }
    std::erase_if(thread.sides, [&](const Thread::Side& side) {
      if (side.stamp > now_) return false;
      const std::size_t from = side.of->one_block() ? thread.since : 0;
      kept_ += thread.steps.places.size() - from;
      if (!thread.cut && kept_ <= most_kept) *side.steps = thread.steps.from(from);
      side.of->met_some |= thread.met_some;
      if (const auto last = last_barrier_.find(block->first); last != last_barrier_.end())
        side.of->barrier = last->second;
      return true;
    });
  }
  return true;
}

bool Between::record(trace::Record& record) {
  ++now_;
  auto site = [&](const auto& barrier) { return detector_.sides().site(barrier.module, barrier.site); };
  if (auto* r = std::get_if<trace::BlockBarrier>(&record)) {
    pass(r->launch, r->block, site(*r), nullptr, ~std::uint32_t(0));
    const order::OperationIndex operation = detector_.operation_of(r->launch);
    const auto block = by_block_.find(order::ThreadKey(operation, r->block, 0).block_bits());
    if (!operation || block == by_block_.end()) return true;
    last_barrier_[block->first] = detector_.sides().site(r->module, r->site);
    for (auto& [number, warp] : block->second)
      for (auto& [lane, thread] : warp) {
        thread.met_some = false;
        thread.since = thread.steps.places.size();
        if (thread.across_blocks) continue;
        thread.steps = {};
        thread.since = 0;
        thread.cut = false;
      }
  } else if (auto* r = std::get_if<trace::BarrierArrive>(&record)) {
    pass(r->warp.launch, r->warp.block, site(*r), &r->warp, r->mask);
    met_some(r->warp.launch, r->warp.block);
  } else if (auto* r = std::get_if<trace::WarpBarrier>(&record)) {
    pass(r->warp.launch, r->warp.block, site(*r), &r->warp, r->mask);
    met_some(r->warp.launch, r->warp.block);
  }
  return true;
}

void Between::met_some(std::uint32_t launch, std::uint32_t number) {
  const order::OperationIndex operation = detector_.operation_of(launch);
  const auto block = by_block_.find(order::ThreadKey(operation, number, 0).block_bits());
  if (!operation || block == by_block_.end()) return;
  for (auto& [warp, lanes] : block->second)
    for (auto& [lane, thread] : lanes) thread.met_some = true;
}

// By the source, where both are in one function: below 0 where `a` has the lesser line.
int Between::line_against(PlaceId a, PlaceId b) const {
  const std::vector<SourceFrame>&one = detector_.sides().place(a).site->source,
        &two = detector_.sides().place(b).site->source;
  auto i = one.rbegin(), j = two.rbegin(); // from the kernel inwards
  for (; i != one.rend() && j != two.rend(); ++i, ++j) {
    if (i->file != j->file || i->function != j->function) break;
    if (i->line != j->line) return i->line < j->line ? -1 : 1;
  }
  return 0;
}

// Compilers move and copy code, so that PTX may have a read in front of the write that the program has before it: lines
// tell. What stands in front of the barrier that both have passed comes in a loop's next turn.
bool Between::comes_before(PlaceId a, PlaceId b, PlaceId barrier) const {
  if (barrier) {
    const bool a_again = line_against(a, barrier) < 0, b_again = line_against(b, barrier) < 0;
    if (a_again != b_again) return b_again;
  }
  const int lines = line_against(a, b);
  return lines ? lines < 0 : a < b;
}

Between::Found Between::between(const Instance& instance) const {
  const std::vector<PlaceId>&one = instance.before_first.places, &two = instance.before_second.places;
  // Since the last barrier nothing orders any of what the two threads of one block did, unless some met elsewhere.
  const bool only_these = !instance.one_block() || instance.met_some;
  const std::vector<Step> first_steps = steps_of(one), second_steps = steps_of(two);
  const std::map<Step, std::size_t> in_first = numbered(one), in_second = numbered(two);
  Found found;
  for (std::size_t i : like_the_last(one, instance.before_first.addresses, only_these)) {
    for (std::size_t j : like_the_last(two, instance.before_second.addresses, only_these)) {
      const Step &first = first_steps[i], &second = second_steps[j];
      if (first == second) return {{}, true};
      const auto behind = in_first.find(second), before = in_second.find(first);
      const bool first_ahead = behind != in_first.end() && behind->second < i,
                 second_ahead = before != in_second.end() && before->second < j;
      std::vector<Gap> gaps;
      if (first_ahead && !second_ahead) {
        add(behind->second, i, one, gaps);
      } else if (second_ahead && !first_ahead) {
        add(before->second, j, two, gaps);
      } else if (behind == in_first.end() && before == in_second.end() && i + 1 == one.size() && j + 1 == two.size()) {
        gaps = comes_before(first.first, second.first, instance.barrier) ? across(one, two) : across(two, one);
      }
      if (!gaps.empty() && (found.gaps.empty() || gaps.size() < found.gaps.size())) found.gaps = std::move(gaps);
    }
  }
  return found;
}

std::vector<Between::Found> Between::gaps(std::size_t race) const {
  std::vector<Found> all;
  for (const Instance& instance : instances_[race]) {
    const Steps &one = instance.before_first, &two = instance.before_second;
    if (torn_ || one.empty() || two.empty()) continue;
    if (one.places.back() != instance.first.place || two.places.back() != instance.second.place) continue;
    Found found = between(instance);
    if (found.at_once || !found.gaps.empty()) all.push_back(std::move(found));
  }
  return all;
}

} // namespace deadheat::detect
