#include "analyzer/detect/same_fault.h"

#include <algorithm>
#include <numeric>

namespace deadheat::detect {

namespace {

class Faults {
 public:
  Faults(const Detector& detector, const std::vector<FoundRace>& races) : detector_(detector), races_(races) {}

  std::vector<std::size_t> firsts() {
    std::vector<std::size_t> first(races_.size());
    std::iota(first.begin(), first.end(), 0);
    for (std::size_t i = 0; i < races_.size(); ++i) {
      const FoundRace& race = races_[i];
      if (race.level != RaceLevel::stream || is_free(race.first) == is_free(race.second)) continue;
      const Touch &free = is_free(race.first) ? race.first : race.second, &user = other(race, free);
      for (std::size_t j = 0; j < races_.size(); ++j) {
        if (i != j && goes_with(races_[j], race, free, user)) join(first, i, j);
      }
    }
    return first;
  }

 private:
  bool is_free(const Touch& touch) const { return detector_.sides().place(touch.place).kind == AccessKind::free; }
  static const Touch& other(const FoundRace& race, const Touch& side) {
    return &side == &race.first ? race.second : race.first;
  }
  SideId side(const Touch& touch) const { return detector_.sides().place(touch.place).side; }

  // The same user of the memory, and one that comes behind the free.
  bool goes_with(const FoundRace& race, const FoundRace& of_free, const Touch& free, const Touch& user) const {
    if (race.level != RaceLevel::stream || race.certainty != of_free.certainty) return false;
    const trace::Allocate* memory = detector_.allocation(of_free.allocation);
    if (!memory || race.address - memory->address >= memory->bytes) return false;
    const order::OperationClocks& clocks = detector_.operations();
    const auto freed = free.thread.operation();
    for (const Touch* one : {&race.first, &race.second}) {
      const auto later = other(race, *one).thread.operation();
      if (one->thread.operation() == user.thread.operation() && side(*one) == side(user) && later != freed &&
          (clocks.ordered(freed, later) || clocks.handed_over(freed, later, race.address)))
        return true;
    }
    return false;
  }

  static void join(std::vector<std::size_t>& first, std::size_t a, std::size_t b) {
    const std::size_t from = std::max(first[a], first[b]), to = std::min(first[a], first[b]);
    std::replace(first.begin(), first.end(), from, to);
  }

  const Detector& detector_;
  const std::vector<FoundRace>& races_;
};

} // namespace

std::vector<std::size_t> same_faults(const Detector& detector, const std::vector<FoundRace>& races) {
  return Faults(detector, races).firsts();
}

} // namespace deadheat::detect
