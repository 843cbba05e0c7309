// How far outputs are from doubles, schedule by schedule: see search.h.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "replay/search/schedules.h"
#include "replay/search/search.h"
#include "replay/search/session.h"

namespace deadheat::search {

namespace {

using engine::FloatKind;
using engine::Shadow;
using engine::Shadows;

constexpr std::uint64_t random_orders = 8; // besides the natural one

const char* name_of(FloatKind kind) {
  switch (kind) {
    case FloatKind::f16: return "f16";
    case FloatKind::bf16: return "bf16";
    case FloatKind::f64: return "f64";
    default: return "f32";
  }
}

// Numbers in order as integers: neighbours are one apart.
std::int64_t ordinal(FloatKind kind, std::uint64_t bits) {
  const unsigned width = engine::width_of(kind);
  const std::uint64_t sign = std::uint64_t(1) << (width - 1), magnitude = bits & (sign - 1);
  return bits & sign ? -std::int64_t(magnitude) : std::int64_t(magnitude);
}

// One value that the host read: in which runs, and how far from its double.
struct Element {
  FloatKind kind = FloatKind::f32;
  std::uint64_t sum = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = std::numeric_limits<std::int64_t>::min();
  std::set<std::uint32_t> wrong_in; // runs
  std::uint32_t seen_in = ~0u;      // the last run
  double relative = 0, ulp = 0, tolerances = 0;
  Shadow furthest;
};
using Key = std::pair<std::uint32_t, std::uint64_t>; // operation, device address

double relative_distance(const Shadow& s) {
  if (engine::distance_in_ulp(s) == 0) return 0;
  const double real = engine::widened(s.kind, s.bits), apart = std::fabs(real - s.value);
  if (!std::isfinite(apart)) return std::numeric_limits<double>::infinity();
  return s.value == 0 ? std::numeric_limits<double>::infinity() : apart / std::fabs(s.value);
}

class Measurement {
 public:
  // Up to the first output in which the run departs from the natural one: what the host did later belongs to that.
  void add(const Run& run, const ShadowedRun& shadowed) {
    const std::uint32_t number = runs_++;
    std::uint32_t last = ~0u;
    if (number == 0)
      natural_ = run.outputs;
    else if (const Comparison c = compare(natural_, run.outputs, nullptr); c.differ && c.operation)
      last = c.operation;
    for (const ShadowedRun::Element& e : shadowed.elements) {
      if (e.operation > last) continue;
      auto [at, fresh] = elements_.try_emplace({e.operation, e.address});
      Element& element = at->second;
      element.kind = e.shadow.kind;
      if (e.shadow.sum) element.sum = e.shadow.sum;
      if (fresh && number) value(element, natural_, at->first);
      look(element, e.shadow, number);
    }
    for (auto& [key, element] : elements_)
      if (element.seen_in != number && key.first <= last) value(element, run.outputs, key);
    for (const auto& [place, side] : shadowed.places) places_.emplace(place, side);
    for (const auto& [place, sum] : shadowed.sums) {
      Sum& known = sums_[place];
      known.orders.insert(sum.order);
      known.several_threads |= sum.several_threads;
      known.atomic = sum.atomic;
      known.times = std::max(known.times, sum.times);
    }
  }

  // What the chosen elements come to; values without a shadow are exact.
  template <typename Chosen>
  Precision summary(const ValueTypes& types, Chosen&& chosen) const {
    Precision p;
    std::set<std::uint32_t> wrong_in;
    const Element* furthest = nullptr;
    Key at;
    for (const auto& [key, e] : elements_) {
      if (!chosen(key, e)) continue;
      ++p.values;
      p.wrong += !e.wrong_in.empty();
      wrong_in.insert(e.wrong_in.begin(), e.wrong_in.end());
      p.max_relative = std::max(p.max_relative, e.relative);
      p.max_fp64_ulp = std::max(p.max_fp64_ulp, e.ulp);
      if (e.most > e.least) p.max_ulp = std::max(p.max_ulp, std::uint64_t(e.most) - std::uint64_t(e.least));
      if (e.tolerances > 0 && (!furthest || e.tolerances > furthest->tolerances)) furthest = &e, at = key;
    }
    p.rightness = wrong_in.empty()           ? Rightness::right
                  : wrong_in.size() == runs_ ? Rightness::wrong
                                             : Rightness::by_schedule;
    if (!furthest) return p;
    const Shadow& s = furthest->furthest;
    const ValueTypes::Place place = types.place(at.second);
    const double ulp = engine::ulp_of(s.kind, s.value);
    p.example = {place.allocation,
                 place.offset,
                 engine::widened(s.kind, s.bits),
                 s.value,
                 engine::distance_in_ulp(s),
                 engine::tolerance(s) / ulp,
                 s.roundings + std::uint64_t(s.cuts)};
    // The instruction that most of the difference of wrong values comes from; of right ones, if none is wrong.
    std::map<std::uint64_t, double> weights;
    for (const auto& [key, e] : elements_) {
      if (!chosen(key, e) || !e.furthest.where || (p.wrong && e.wrong_in.empty())) continue;
      const double loss = std::fabs(e.furthest.lost) / engine::ulp_of(e.kind, e.furthest.value);
      weights[e.furthest.where] += std::min(std::isnan(loss) ? 1e30 : loss, 1e30);
    }
    const auto most = std::max_element(weights.begin(), weights.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != weights.end())
      if (auto found = places_.find(most->first); found != places_.end()) p.lost_at = found->second;
    return p;
  }

  // By allocation and type; wrong ones first.
  std::vector<OutputPrecision> outputs(const ValueTypes& types) const {
    std::map<std::pair<std::uint32_t, FloatKind>, std::uint64_t> groups;
    for (const auto& [key, e] : elements_) ++groups[{types.place(key.second).allocation, e.kind}];
    std::vector<OutputPrecision> all;
    for (const auto& [group, count] : groups) {
      OutputPrecision output;
      output.allocation = group.first;
      output.type = name_of(group.second);
      output.precision = summary(types, [&](const Key& key, const Element& e) {
        return e.kind == group.second && types.place(key.second).allocation == group.first;
      });
      all.push_back(std::move(output));
    }
    std::stable_sort(all.begin(), all.end(), [](const OutputPrecision& a, const OutputPrecision& b) {
      return rank(a.precision.rightness) < rank(b.precision.rightness);
    });
    return all;
  }

  struct Sum {
    std::set<std::uint64_t> orders;
    bool several_threads = false, atomic = false;
    std::uint64_t times = 0;
  };
  const std::map<std::uint64_t, Sum>& sums() const { return sums_; }
  const RaceSide* place(std::uint64_t place) const {
    auto found = places_.find(place);
    return found == places_.end() ? nullptr : &found->second;
  }
  Precision of_sums(const ValueTypes& types, const std::set<std::uint64_t>& places) const {
    return summary(types, [&](const Key&, const Element& e) { return places.contains(e.sum); });
  }
  std::string kind_of_sum(std::uint64_t place) const {
    for (const auto& [key, e] : elements_)
      if (e.sum == place) return name_of(e.kind);
    return "";
  }
  std::uint64_t runs() const { return runs_; }

 private:
  static int rank(Rightness r) { return r == Rightness::wrong ? 0 : r == Rightness::by_schedule ? 1 : 2; }

  void look(Element& e, const Shadow& s, std::uint32_t run) {
    e.seen_in = run;
    spread(e, s.bits);
    if (!engine::is_right(s)) e.wrong_in.insert(run);
    e.relative = std::max(e.relative, relative_distance(s));
    const double ulp = engine::distance_in_ulp(s);
    e.ulp = std::max(e.ulp, ulp);
    const double tolerances = ulp * engine::ulp_of(s.kind, s.value) / engine::tolerance(s);
    if (e.furthest.kind != FloatKind::none && !(tolerances > e.tolerances)) return;
    e.tolerances = tolerances;
    e.furthest = s;
  }
  void spread(Element& e, std::uint64_t bits) {
    e.least = std::min(e.least, ordinal(e.kind, bits));
    e.most = std::max(e.most, ordinal(e.kind, bits));
  }
  // A value that is exact in this run, and has no shadow.
  void value(Element& e, const Outputs& outputs, const Key& key) {
    const unsigned width = engine::width_of(e.kind) / 8;
    auto same = std::lower_bound(outputs.outputs.begin(), outputs.outputs.end(), key.first,
                                 [](const Output& a, std::uint32_t operation) { return a.operation < operation; });
    for (; same != outputs.outputs.end() && same->operation == key.first; ++same) {
      const std::optional<std::uint64_t> offset = same->offset_of(key.second);
      if (!offset || *offset + width > same->bytes.size()) continue;
      std::uint64_t bits = 0;
      std::memcpy(&bits, same->bytes.data() + *offset, width);
      return spread(e, bits);
    }
  }

  std::uint32_t runs_ = 0;
  Outputs natural_;
  std::map<Key, Element> elements_;
  std::map<std::uint64_t, RaceSide> places_;
  std::map<std::uint64_t, Sum> sums_;
};

bool same_site(const AccessName& a, const AccessName& b) { return a.module == b.module && a.site == b.site; }

// The entry that has the instruction; their number: none has.
std::size_t entry_of(const RaceSide& side, const std::vector<OrderDependent>& entries) {
  return std::size_t(std::find_if(entries.begin(), entries.end(),
                                  [&](const OrderDependent& entry) {
                                    return std::any_of(
                                        entry.instructions.begin(), entry.instructions.end(),
                                        [&](const AccessName& name) { return same_site(name, side.name); });
                                  }) -
                     entries.begin());
}

// Of a sum that no atomic makes: one for all instructions of a line, as unrolled loops have them. Returns which.
std::size_t add_entry(const RaceSide& side, const std::string& kind, std::vector<OrderDependent>& entries) {
  OrderDependent entry;
  entry.site = side;
  entry.site.op = AccessKind::write;
  entry.how = side.opcode.find(".cas") != std::string::npos ? "compare and swap" : "load and store";
  entry.atomic = kind.empty() ? "add" : "add." + kind;
  auto known = std::find_if(entries.begin(), entries.end(), [&](const OrderDependent& other) {
    return !side.source.empty() && other.site.source == side.source && other.site.kernel == side.kernel &&
           other.how == entry.how && other.atomic == entry.atomic;
  });
  if (known == entries.end()) known = entries.insert(entries.end(), std::move(entry));
  known->instructions.push_back(side.name);
  return std::size_t(known - entries.begin());
}

} // namespace

Expected<void> measure_precision(const std::string& trace, Analysis& analysis, const SearchOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Expected<Session> session = Session::open(trace);
  if (!session) return session.error();
  Measurement measured;
  std::uint64_t steps = 0, budget = 0, restarts = 0;
  for (std::uint64_t number = 0; number <= std::min(options.schedules, random_orders); ++number) {
    if (number && std::chrono::duration<double>(Clock::now() - begin).count() > options.seconds) break;
    if (options.progress)
      options.progress("computing in double, schedule " + std::to_string(number + 1) + " of at most " +
                       std::to_string(std::min(options.schedules, random_orders) + 1));
    const Schedule schedule = number ? nth_schedule(number - 1, options.seed, steps) : Schedule{};
    ShadowedRun shadowed;
    Expected<Run> run = session->run(schedule, nullptr, budget, nullptr, nullptr, &shadowed);
    if (!run) return run.error();
    if (number == 0) {
      steps = run->choices.visible;
      budget = hang_budget(steps);
      restarts = shadowed.restarts;
    }
    measured.add(*run, shadowed);
  }
  Expected<const ValueTypes*> types = session->value_types();
  if (!types) return types.error();

  analysis.precision.emplace();
  analysis.precision->schedules = measured.runs();
  analysis.precision->restarts = restarts;
  analysis.precision->outputs = measured.outputs(**types);
  std::map<std::size_t, std::set<std::uint64_t>> places; // of each entry
  for (const auto& [place, sum] : measured.sums()) {
    const RaceSide* side = measured.place(place);
    if (!side) continue;
    std::size_t entry = entry_of(*side, analysis.order_dependent);
    if (entry == analysis.order_dependent.size()) {
      const bool races = std::any_of(analysis.races.begin(), analysis.races.end(), [&](const Race& race) {
        return same_site(race.first.name, side->name) || same_site(race.second.name, side->name);
      });
      if (sum.atomic || races || !sum.several_threads || sum.orders.size() < 2) continue;
      entry = add_entry(*side, measured.kind_of_sum(place), analysis.order_dependent);
      analysis.order_dependent[entry].occurrences += sum.times;
    }
    places[entry].insert(place);
  }
  for (const auto& [entry, of] : places) {
    OrderDependent& known = analysis.order_dependent[entry];
    known.precision = measured.of_sums(**types, of);
    known.fp64_error = known.precision->max_relative;
    known.max_ulp = std::max(known.max_ulp, known.precision->max_ulp);
    known.schedules = std::max(known.schedules, measured.runs());
  }
  analysis.summary.order_dependent = analysis.order_dependent.size();
  return {};
}

} // namespace deadheat::search
