// Other schedules of a whole run: see search.h.
#include <chrono>
#include <set>

#include "replay/search/schedules.h"
#include "replay/search/search.h"
#include "replay/search/session.h"

namespace deadheat::search {

Expected<Variation> vary(const std::string& trace, std::uint64_t count, std::uint64_t seed, double seconds,
                         const std::function<void(std::uint64_t)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  Expected<Session> session = Session::open(trace);
  if (!session) return session.error();
  Expected<Run> natural = session->run(Schedule{});
  if (!natural) return natural.error();
  const std::uint64_t budget = hang_budget(natural->choices.visible);
  Variation variation;
  std::set<std::string> seen{natural->outputs.digest()};
  for (std::uint64_t number = 0; number < count; ++number) {
    if (seconds > 0 && std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) break;
    if (progress) progress(number);
    Schedule schedule = nth_schedule(number, seed, natural->choices.visible);
    schedule.weak = true;
    schedule.old_rate = number % 2 ? 32 : 192; // few reads of old values, and many
    Expected<Run> run = session->run(schedule, nullptr, budget);
    if (!run) return run.error();
    ++variation.schedules;
    variation.old_reads += run->old_reads.size();
    const bool fresh = seen.insert(run->outputs.digest()).second;
    if (fresh && !variation.first) variation.first = number + 1;
  }
  variation.outputs = seen.size();
  return variation;
}

} // namespace deadheat::search
