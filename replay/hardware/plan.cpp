#include "replay/hardware/plan.h"

#include <algorithm>

namespace deadheat::hardware {

namespace {

bool weak_only(const Schedule& schedule) {
  if (!schedule.old_reads.empty() || schedule.old_rate) return true;
  for (const Hold& hold : schedule.holds) {
    if (hold.in_place) return true;
  }
  return false;
}

// Does the launch begin before the one in front of it in its stream is complete (programmatic dependent launch)?
bool dependent(const Capsule& capsule, std::uint32_t launch) {
  for (const trace::Record& command : capsule.commands()) {
    auto* operation = std::get_if<trace::Operation>(&command);
    if (!operation || operation->launch != launch) continue;
    auto* launched = std::get_if<trace::Launch>(&operation->what);
    return launched && launched->programmatic;
  }
  return false;
}

} // namespace

Plan make_plan(const Capsule& capsule) {
  const search::Witness& witness = capsule.witness();
  Plan plan;
  plan.first = witness.race.first.name;
  plan.second = witness.race.second.name;
  if (witness.instance) {
    plan.first = witness.instance->first;
    plan.second = witness.instance->second;
  }
  if (witness.weak || weak_only(witness.a) || weak_only(witness.b)) {
    plan.out_of_reach =
        "the outputs differ because an access does not see one that came before it (weak memory): no order of the two "
        "shows that";
    return plan;
  }
  for (const RaceSide* side : {&witness.race.first, &witness.race.second}) {
    if (side->op != AccessKind::free || !side->name.launch) continue;
    plan.out_of_reach = "a kernel's call of free is one of the two, and what is used behind it need not fail on a GPU";
    return plan;
  }
  if (witness.a.holds.size() == 1) {
    plan.first = witness.a.holds[0].until;
    plan.second = witness.a.holds[0].held;
  } else if (witness.b.holds.size() == 1) {
    plan.first = witness.b.holds[0].held;
    plan.second = witness.b.holds[0].until;
  }
  const bool one_launch = plan.first.launch && plan.first.launch == plan.second.launch;
  if (one_launch && plan.first.block == plan.second.block && plan.first.thread / 32 == plan.second.thread / 32) {
    plan.out_of_reach = "both accesses belong to one warp, whose lanes the hardware runs as it likes";
    return plan;
  }
  const bool threads = plan.first.launch && plan.second.launch;
  if (!one_launch && !(threads && dependent(capsule, std::max(plan.first.launch, plan.second.launch))))
    plan.means = Means::gates;
  return plan;
}

const char* name(Means means) {
  static constexpr const char* names[] = {"turnstiles", "gates", "delays"};
  return names[std::size_t(means)];
}

} // namespace deadheat::hardware
