// Explored schedules: see search.h.
#include <algorithm>
#include <chrono>

#include "replay/search/schedules.h"
#include "replay/search/search.h"
#include "replay/search/session.h"
#include "replay/search/temporary_directory.h"

namespace deadheat::search {

Expected<std::uint64_t> explore(const std::string& trace, std::uint64_t count, std::uint64_t seed, double seconds,
                                const std::function<Expected<void>(std::uint64_t, const std::string&)>& each) {
  const auto begin = std::chrono::steady_clock::now();
  Expected<Session> session = Session::open(trace);
  if (!session) return session.error();
  Expected<Run> natural = session->run(Schedule{});
  if (!natural) return natural.error();
  std::uint64_t parted = 0;
  const std::uint64_t budget = hang_budget(natural->choices.visible);
  for (std::uint64_t number = 0; number < count; ++number) {
    if (seconds > 0 && std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) break;
    Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
    if (!directory) return directory.error();
    const std::string recorded = directory->path() + "/explored.deadheat";
    const Schedule schedule = nth_schedule(number, seed, natural->choices.visible);
    Expected<bool> followed = session->record(schedule, recorded, budget);
    if (!followed) return followed.error();
    parted += !*followed;
    if (Expected<void> done = each(number + 1, recorded); !done) return done.error();
  }
  return parted;
}

} // namespace deadheat::search
