#include "replay/search/interleaving.h"
#include "replay/search/judge.h"
#include "replay/search/outputs.h"
#include "replay/search/search.h"
#include "replay/search/session.h"
#include "replay/search/temporary_directory.h"
#include "replay/search/witness.h"

namespace deadheat::search {

Expected<WitnessRun> replay_witness(const std::string& file) {
  Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return directory.error();
  Expected<Witness> witness = read_witness(file, directory->path());
  if (!witness) return witness.error();
  Expected<Session> session = Session::open(directory->path());
  if (!session) return session.error();
  Expected<Run> a = session->run(witness->a, nullptr, witness->budget);
  if (!a) return a.error();
  Expected<Run> b = session->run(witness->b, nullptr, witness->budget);
  if (!b) return b.error();

  WitnessRun result;
  result.race = witness->race;
  if (result.race.level != RaceLevel::stream && a->choices.visible <= most_logged) {
    Log of_a, of_b;
    if (Expected<Run> run = session->run(witness->a, nullptr, witness->budget, &of_a); !run) return run.error();
    if (Expected<Run> run = session->run(witness->b, nullptr, witness->budget, &of_b); !run) return run.error();
    result.race.witnessed = witness->instance;
    const Race::Instance sides{witness->race.first.name, witness->race.second.name};
    SideBySide steps = side_by_side(of_a, of_b, witness->instance.value_or(sides),
                                    [&](auto module, auto number) { return session->site(module, number); });
    result.race.steps_a = std::move(steps.a);
    result.race.steps_b = std::move(steps.b);
    result.race.context_switches = context_switches(of_a, of_b);
  }
  if (witness->smaller) {
    Expected<Run> of_a = session->run(witness->smaller->a, nullptr, witness->budget);
    if (!of_a) return of_a.error();
    Expected<Run> of_b = session->run(witness->smaller->b, nullptr, witness->budget);
    if (!of_b) return of_b.error();
    if (compare(of_a->outputs, of_b->outputs, nullptr).differ) result.race.smaller = witness->smaller->size;
  }
  result.digest_a = a->outputs.digest(witness->last_operation);
  result.digest_b = b->outputs.digest(witness->last_operation);
  result.as_recorded = result.digest_a == witness->digest_a && result.digest_b == witness->digest_b;
  Expected<const ValueTypes*> types = session->value_types();
  if (!types) return types.error();
  ValueTypes told = **types;
  for (const auto& [allocation, type] : witness->value_types) told.tell(allocation, type);
  Comparison comparison = compare(a->outputs, b->outputs, &told);
  result.differ = comparison.differ;
  result.race.differences = comparison.differences;
  result.race.verdict = comparison.differ ? Verdict::harmful : Verdict::benign;
  result.race.witness = file;
  return result;
}

} // namespace deadheat::search
