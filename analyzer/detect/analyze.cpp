#include "analyzer/detect/analyze.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "analyzer/detect/between.h"
#include "analyzer/detect/counter.h"
#include "analyzer/detect/exchanges.h"
#include "analyzer/detect/explain.h"
#include "analyzer/detect/faults.h"
#include "analyzer/detect/find.h"
#include "analyzer/detect/kernel_heap.h"
#include "analyzer/detect/lifetimes.h"
#include "analyzer/detect/outcomes.h"
#include "analyzer/detect/same_fault.h"
#include "analyzer/detect/surroundings.h"
#include "analyzer/detect/unused.h"
#include "analyzer/detect/waits.h"
#include "analyzer/report/words.h"
#include "tracer/ptx/demangle.h"

namespace deadheat::detect {

namespace {

// Turns what the detector found into the words of reports.
class Describer {
 public:
  Describer(const Detector& detector, const std::map<Touch, std::uint64_t>& nth) : detector_(detector), nth_(nth) {}

  RaceSide side(const Touch& touch) const {
    const Place& place = detector_.sides().place(touch.place);
    RaceSide side;
    side.op = place.kind;
    side.name = name(touch);
    if (!place.site) {
      side.kernel = place.api;
      side.stream = detector_.operations().stream(touch.thread.operation());
      side.stream_maker = detector_.operations().maker(side.stream);
      return side;
    }
    side.source = place.site->source;
    side.opcode = place.site->opcode;
    if (const Detector::LaunchInfo* info = detector_.launch_of(touch.thread.operation())) {
      side.kernel = ptx::demangle(info->launch.kernel);
      side.stream = info->stream;
      side.stream_maker = detector_.operations().maker(side.stream);
      side.called_at = info->called_at;
      side.block = coordinates(touch.thread.block(), info->launch.grid);
      side.thread = coordinates(touch.thread.thread(), info->launch.block);
    }
    return side;
  }

  AccessName name(const Touch& touch) const {
    const Place& place = detector_.sides().place(touch.place);
    AccessName name;
    name.operation = detector_.operations().id(touch.thread.operation());
    if (!place.site) return name;
    if (const Detector::LaunchInfo* info = detector_.launch_of(touch.thread.operation())) name.launch = info->number;
    name.block = touch.thread.block();
    name.thread = touch.thread.thread();
    name.module = place.module;
    name.site = place.site_number;
    if (auto known = nth_.find(touch); known != nth_.end()) name.nth = known->second;
    return name;
  }

  Race race(const FoundRace& found, std::uint32_t id) const {
    Race race;
    race.id = id;
    race.level = found.level;
    race.race_class = found.race_class;
    race.certainty = found.certainty;
    race.first = side(found.first);
    race.second = side(found.second);
    race.address = found.address;
    race.bytes = found.bytes;
    race.occurrences = found.occurrences;
    race.same_value = found.same_value();
    race.lacks_only_proxy_fence = !found.lacks_other;
    race.why = found.why;
    if (const trace::Allocate* allocation = detector_.allocation(found.allocation); allocation && found.allocation) {
      race.allocation =
          Race::AllocationRef{allocation->allocation, found.address - allocation->address, allocation->bytes};
    }
    for (const auto& [first, second] : chosen_instances(found)) race.instances.push_back({name(first), name(second)});
    for (const auto& [number, instance] : found.sample)
      race.sample.push_back({name(instance.first), name(instance.second)});
    if (found.codes.size() > 1) {
      for (const auto& [code, touches] : found.codes) race.codes.push_back({side(touches.first), side(touches.second)});
    }
    return race;
  }

  // Of a template's lines: kernels that race there too, and are not named by the occurrence that stands for all.
  std::string other_kernels(const FoundRace& found) const {
    constexpr std::size_t most_named = 3;
    std::set<std::string> others, named;
    auto add = [&](std::set<std::string>& to, PlaceId place) {
      if (const Site* site = detector_.sides().place(place).site) to.insert(ptx::demangle(site->function));
    };
    for (PlaceId place : {found.first.place, found.second.place}) add(named, place);
    for (PlaceId place : instructions(found)) add(others, place);
    for (const std::string& name : named) others.erase(name);
    if (others.empty()) return "";
    std::string text = "; the same lines race in ";
    std::size_t count = 0;
    for (const std::string& name : others) {
      if (count == most_named) break;
      text += (count++ ? ", " : "") + name;
    }
    if (const std::size_t more = others.size() - count)
      text += more == 1 ? " and one more kernel" : " and " + std::to_string(more) + " more kernels";
    return text + " too";
  }

  // Demangled, of all occurrences; none where some operation is no launch.
  std::set<std::string> kernels(const FoundRace& found) const {
    std::set<std::string> names;
    for (const auto& [code, touches] : found.codes) {
      for (const Touch& touch : {touches.first, touches.second}) {
        const Detector::LaunchInfo* info = detector_.launch_of(touch.thread.operation());
        if (!info) return {};
        names.insert(ptx::demangle(info->launch.kernel));
      }
    }
    return names;
  }

  // A fault's place: launch, block, thread and site as the record names them.
  template <typename ErrorRecord>
  RaceSide place(const ErrorRecord& error) const {
    RaceSide side;
    side.name.launch = error.launch;
    side.name.block = error.block;
    side.name.thread = error.thread;
    side.name.module = error.module;
    side.name.site = error.site;
    if (PlaceId place = detector_.sides().site(error.module, error.site)) {
      side.source = detector_.sides().place(place).site->source;
      side.opcode = detector_.sides().place(place).site->opcode;
    }
    const Detector::LaunchInfo* info = detector_.launch_of(detector_.operation_of(error.launch));
    if (info && error.launch) {
      side.kernel = ptx::demangle(info->launch.kernel);
      side.stream = info->stream;
      side.called_at = info->called_at;
      side.block = coordinates(error.block, info->launch.grid);
      side.thread = coordinates(error.thread, info->launch.block);
    }
    return side;
  }

 private:
  const Detector& detector_;
  const std::map<Touch, std::uint64_t>& nth_;
};

constexpr const char* memory_error_names[] = {"out-of-bounds", "use-after-free", "misaligned",   "wrong-space",
                                              "uninitialized", "double-free",    "invalid-free", "stack-overflow",
                                              "trap",          "assertion",      "leak",         "api-error"};

bool ends_the_run(const trace::MemoryError& error) {
  using Kind = trace::MemoryError::Kind;
  const bool of_the_host = error.launch == 0 && (error.kind == Kind::invalid_free || error.kind == Kind::double_free);
  return error.kind != Kind::uninitialized && error.kind != Kind::leak && error.kind != Kind::api_error && !of_the_host;
}
bool ends_the_run(const trace::SyncError& error) { return error.text.rfind("deadlock: ", 0) == 0; }

void describe_faults(const Detector& detector, const std::vector<CountedSyncError>& sync_errors,
                     const Describer& describer, Analysis& analysis) {
  for (const trace::MemoryError& error : detector.memory_errors) {
    Fault fault;
    fault.kind = memory_error_names[std::min<std::size_t>(std::size_t(error.kind), std::size(memory_error_names) - 1)];
    fault.text = error.text;
    fault.side = describer.place(error);
    fault.side.op = error.access;
    fault.address = error.address;
    fault.bytes = error.bytes;
    if (const trace::Allocate* nearest = detector.allocation(error.nearest_allocation)) {
      fault.nearest = Race::AllocationRef{nearest->allocation, error.address - nearest->address, nearest->bytes};
    }
    fault.ends_run = ends_the_run(error);
    analysis.memory_errors.push_back(fault);
    if (fault.ends_run) analysis.summary.complete = false;
  }
  const std::size_t of_others = analysis.sync_errors.size(); // of other logs
  for (const auto& [error, count] : sync_errors) {
    const bool ends_run = ends_the_run(error);
    analysis.sync_errors.push_back({"sync", error.text, describer.place(error), 0, 0, {}, count, ends_run});
    if (ends_run) analysis.summary.complete = false;
  }
  join_lines(analysis.sync_errors, of_others);
}

// A log's chunks, and what could not be read of them.
class LogSource final : public Source {
 public:
  LogSource(const trace::LogReader& log, ModuleText text) : log_(log), outcomes_(std::move(text)) {}
  std::size_t chunks() const override { return log_.chunk_count(); }
  void play(std::size_t chunk, trace::RecordVisitor& visitor) const override {
    if (log_.gap_before(chunk)) visitor.missing();
    Expected<trace::Payload> payload = log_.chunk(chunk);
    if (!payload) return damaged(chunk, payload.error().what, visitor);
    trace::Decoder decoder(*payload);
    for (std::uint64_t skipped = 0;;) {
      const trace::Decoder::Item item = decoder.next();
      if (decoder.skipped() != skipped) { // of kinds that may order what others do not
        skipped = decoder.skipped();
        visitor.missing();
      }
      switch (item) {
        case trace::Decoder::Item::access: visitor.access(decoder.access()); break;
        case trace::Decoder::Item::record:
          if (auto* module = std::get_if<trace::Module>(&decoder.record())) known(*module);
          visitor.record(decoder.record());
          break;
        case trace::Decoder::Item::damaged:
          return damaged(chunk, "part of a chunk cannot be read, " + decoder.error(), visitor);
        case trace::Decoder::Item::end: return whole(chunk, decoder, visitor);
      }
    }
  }
  ptx::FlaggedReads flagged(const trace::Module& module) const { return outcomes_.flagged(module); }
  bool taken(std::uint32_t id, const Site& read, const Site* write) const {
    trace::Module module;
    {
      std::lock_guard lock(mutex_);
      const auto known = modules_.find(id);
      if (known == modules_.end()) return false;
      module = known->second;
    }
    return outcomes_.taken(module, read, write);
  }
  // Those that were played, by id; without sites.
  std::map<std::uint32_t, trace::Module> modules() const {
    std::lock_guard lock(mutex_);
    return modules_;
  }
  void note_in(trace::LogReader& log) const {
    for (const auto& [chunk, why] : damaged_) log.note_damage(chunk, why);
    for (const auto& [chunk, records] : skipped_) log.note_skipped(chunk, records);
    for (const auto& [chunk, counts] : counts_) log.note_counts(chunk, counts.first, counts.second);
  }

 private:
  void known(trace::Module& module) const {
    outcomes_.mark(module);
    std::lock_guard lock(mutex_);
    const auto [at, fresh] = modules_.try_emplace(module.id);
    if (fresh) at->second = {module.id, module.image, module.kind, module.origin, {}};
  }
  void damaged(std::size_t chunk, const std::string& why, trace::RecordVisitor& visitor) const {
    if (chunk + 1 < chunks()) visitor.missing();
    std::lock_guard lock(mutex_);
    damaged_[chunk] = why;
  }
  void whole(std::size_t chunk, const trace::Decoder& decoder, trace::RecordVisitor& visitor) const {
    const trace::ChunkInfo& info = log_.chunk_info(chunk);
    const bool as_said = decoder.records() == info.records && decoder.accesses() == info.accesses;
    if (!decoder.skipped() && as_said) return;
    if (!as_said && chunk + 1 < chunks()) visitor.missing();
    std::lock_guard lock(mutex_);
    if (decoder.skipped()) skipped_[chunk] = decoder.skipped();
    if (!as_said) counts_[chunk] = {decoder.records(), decoder.accesses()};
  }
  const trace::LogReader& log_;
  mutable Outcomes outcomes_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint32_t, trace::Module> modules_;
  mutable std::map<std::size_t, std::string> damaged_;
  mutable std::map<std::size_t, std::uint64_t> skipped_;
  mutable std::map<std::size_t, std::pair<std::uint64_t, std::uint64_t>> counts_; // records, accesses
};

// A limit's parts: a chunk of a MiB that each worker decodes, stored and raw, and the piece of it that is not ready
// yet; pieces that are; and what is remembered of memory.
void share_out(std::uint64_t limit, FindOptions& find) {
  constexpr std::uint64_t least = std::uint64_t(64) << 20, a_worker = std::uint64_t(128) << 20;
  find.memory_limit = limit;
  if (limit < least) return;
  find.jobs = unsigned(std::min<std::uint64_t>(find.jobs, std::max<std::uint64_t>(1, limit / a_worker)));
  find.most_bytes_ahead = std::min(find.most_bytes_ahead, limit / 8);
  const std::uint64_t batches = find.jobs * (std::uint64_t(3) << 20) + find.most_bytes_ahead / 2 * 3;
  find.memory_limit = std::max(limit * 3 / 8, limit - std::min(limit, batches));
}

// An entry a source line of a kernel: unrolled loops have many instructions there.
void describe_sums(const Detector& detector, const Findings& findings, Analysis& analysis) {
  std::map<std::tuple<SideId, std::string, std::string>, std::size_t> known; // by line, kernel and what is done there
  for (const auto& [id, unordered] : findings.order_dependent) {
    const Place& place = detector.sides().place(id);
    const Site& site = *place.site;
    const std::string what =
        site.opcode.substr(site.opcode.rfind(".add") == std::string::npos ? 0 : site.opcode.rfind("add"));
    const auto [at, fresh] = known.try_emplace({place.side, site.function, what}, analysis.order_dependent.size());
    if (fresh) {
      OrderDependent& entry = analysis.order_dependent.emplace_back();
      entry.site.op = AccessKind::atomic;
      entry.site.kernel = ptx::demangle(site.function);
      entry.site.source = site.source;
      entry.site.opcode = site.opcode;
      entry.site.name.module = place.module;
      entry.site.name.site = site.id;
      entry.atomic = what;
    }
    OrderDependent& entry = analysis.order_dependent[at->second];
    AccessName& instruction = entry.instructions.emplace_back();
    instruction.module = place.module;
    instruction.site = site.id;
    const auto made = findings.additions.find(id);
    entry.occurrences += made == findings.additions.end() ? unordered : made->second;
  }
}

// What a GPU's records do not tell makes races possible ones, which rank as such.
void blur_races(const LogSource& source, const ModuleText& text, Findings& findings) {
  KernelHeap heap(*findings.detector, findings.races, text);
  Exchanges exchanges(*findings.detector, findings.races);
  for (std::size_t chunk = 0; heap.possible() && chunk < source.chunks(); ++chunk) source.play(chunk, heap);
  for (std::size_t chunk = 0; exchanges.possible() && chunk < source.chunks(); ++chunk) source.play(chunk, exchanges);
  for (std::size_t i = 0; i < findings.races.size(); ++i) {
    FoundRace& race = findings.races[i];
    race.owners_unknown = heap.owners_unknown(i);
    race.messages_unknown = exchanges.unknown(i);
    if (race.owners_unknown || race.messages_unknown) race.certainty = Certainty::possible;
  }
  rank(findings.races);
}

// What the log holds for both.
class Both final : public trace::RecordVisitor {
 public:
  Both(trace::RecordVisitor& one, trace::RecordVisitor& other) : one_(one), other_(other) {}
  bool access(const trace::AccessView& access) override { return one_.access(access) && other_.access(access); }
  bool record(trace::Record& record) override { return one_.record(record) && other_.record(record); }
  void missing() override {
    one_.missing();
    other_.missing();
  }

 private:
  trace::RecordVisitor &one_, &other_;
};

void analyze_log(trace::LogReader& log, ModuleText text, const AnalyzeOptions& options, Analysis& analysis) {
  const LogSource source(log, text);
  FindOptions find;
  find.jobs = options.jobs ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  if (options.memory_limit) share_out(options.memory_limit, find);
  find.progress = options.progress;
  find.flagged = [&](const trace::Module& module) { return source.flagged(module); };
  find.taken = [&](std::uint32_t module, const Site& read, const Site* write) {
    return source.taken(module, read, write);
  };
  Findings findings = find_races(source, find);
  const Detector& detector = *findings.detector;
  blur_races(source, text, findings);
  const std::vector<FoundRace>& races = findings.races;
  const std::size_t races_before = analysis.races.size(), errors_before = analysis.memory_errors.size(); // other logs'

  std::set<Touch> wanted;
  for (const FoundRace& race : races) {
    wanted.insert({race.first, race.second});
    for (const auto& [first, second] : chosen_instances(race)) wanted.insert({first, second});
    for (const auto& [number, instance] : race.sample) wanted.insert({instance.first, instance.second});
  }
  const std::map<Touch, std::uint64_t> nth = count_executions(source, find.jobs, findings, wanted);
  Explainer explainer(detector, races, text);
  Between between(detector, races);
  Both both(between, explainer);
  for (std::size_t chunk = 0; !races.empty() && chunk < source.chunks(); ++chunk) {
    source.play(chunk, both);
    if (options.progress) options.progress("explaining races", double(chunk + 1) / double(source.chunks()));
  }
  UnusedReads unused(detector, races, text);
  for (std::size_t chunk = 0; unused.possible() && !detector.lossy && chunk < source.chunks(); ++chunk) {
    source.play(chunk, unused);
    if (options.progress) options.progress("following values", double(chunk + 1) / double(source.chunks()));
  }
  source.note_in(log);

  std::vector<CountedSyncError> sync_errors;
  for (const trace::SyncError& error : detector.sync_errors) sync_errors.push_back({error});
  const auto more = [&](std::vector<CountedSyncError> found) {
    std::move(found.begin(), found.end(), std::back_inserter(sync_errors));
  };
  more(unfinished_waits(source, detector));
  // Where something was lost, it may have been what they waited by.
  if (findings.peers && !detector.lossy) more(lifetime_errors(source, detector));

  Describer describer(detector, nth);
  for (std::size_t i = 0; i < races.size(); ++i) {
    analysis.races.push_back(describer.race(races[i], std::uint32_t(analysis.races.size() + 1)));
    Race& race = analysis.races.back();
    race.unused_read = !detector.lossy && unused.unused(i);
    race.why = explainer.why(i) + describer.other_kernels(races[i]);
    if (race.unused_read) {
      race.why +=
          "; what is read is not used: it flows into nothing but stores that the reading threads do not perform";
    }
    if (races[i].owners_unknown) {
      race.why += "; it is memory of the kernels' own heap, and who owned it when is not recorded on a GPU";
      if (race.level == RaceLevel::stream) race.why += " where several launches use it";
    }
    if (races[i].messages_unknown)
      race.why +=
          "; one launch waits in a loop for what the other writes, and what launches tell each other so is "
          "not recorded on a GPU";
    for (RaceSide* side : {&race.first, &race.second}) {
      if (side->called_at.empty()) side->called_at = explainer.called_at(side->name.operation);
    }
  }
  describe_sums(detector, findings, analysis);
  describe_faults(detector, sync_errors, describer, analysis);
  Surroundings surroundings(source.modules(), std::move(text));
  for (std::size_t i = races_before; i < analysis.races.size(); ++i) {
    const std::set<std::string> kernels = describer.kernels(races[i - races_before]);
    for (RaceSide* side : {&analysis.races[i].first, &analysis.races[i].second}) surroundings.describe(*side, kernels);
    for (RaceCode& code : analysis.races[i].codes) {
      for (RaceSide* side : {&code.first, &code.second})
        surroundings.describe(*side, {code.first.kernel, code.second.kernel});
    }
  }
  for (std::size_t i = errors_before; i < analysis.memory_errors.size(); ++i) {
    surroundings.locate(analysis.memory_errors[i].side);
    surroundings.describe(analysis.memory_errors[i].side, {});
  }
  join_faults(detector, races, explainer, between, races_before, analysis.races);
  for (const std::string& incident : detector.incidents) analysis.warnings.push_back(incident);
  for (const std::string& line : detector.consistency().warnings()) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(log.path() + ": " + line);
  }

  const Summary& summary = detector.summary();
  analysis.summary.launches += summary.launches;
  analysis.summary.instrumented += summary.instrumented;
  analysis.summary.opaque += summary.opaque;
  analysis.summary.accesses += summary.accesses;
  analysis.summary.assumed_edges += detector.assumed_edges();
  analysis.summary.complete &= log.complete() && !detector.refused && !detector.lossy;
  if (detector.gaps()) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(
        log.path() + ": records are missing or contradict others in " +
        (detector.gaps() == 1 ? "one place" : std::to_string(detector.gaps()) + " places") +
        ": all before counts as ordered before all behind; races across are not reported" +
        (detector.gaps() > Detector::most_gaps
             ? "; behind place " + std::to_string(Detector::most_gaps) + " nothing is compared any more"
             : ""));
  }
  analysis.refused |= detector.refused;
  if (findings.unchecked) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(log.path() + ": " + report::counted(findings.unchecked, "record was", "records were") +
                                " not checked: the kernels touched more memory than the analysis may track");
  }
  if (detector.operations_left_out()) {
    analysis.summary.complete = false;
    const std::uint64_t last = detector.operations_left_out();
    analysis.warnings.push_back(
        log.path() + ": the last " + (last == 1 ? "operation was" : std::to_string(last) + " operations were") +
        " not looked at: the first " + std::to_string(order::largest_operation) + " of a log are");
  }
  if (findings.slot_stretches) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(log.path() +
                                ": slots of data beside a flag that were written again too early are not looked for "
                                "across " +
                                report::counted(findings.slot_stretches, "place", "places") +
                                " in the log: what the threads knew of each other took too much memory there");
  }
  if (!findings.uncertain.empty()) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(log.path() + ": " +
                                report::counted(findings.uncertain.size(), "pair of places", "pairs of places") +
                                " may race too: more threads touched the same bytes than are compared");
  }
  if (findings.unknown) {
    analysis.summary.complete = false;
    analysis.warnings.push_back(
        log.path() + ": " +
        (findings.unknown == 1 ? "1 record was left out: it names"
                               : std::to_string(findings.unknown) + " records were left out: they name") +
        " launches, sites or memory that the trace does not have" +
        (!detector.hiding()      ? ""
         : findings.unknown == 1 ? "; it may have ordered others: races across it are not reported"
                                 : "; " + std::to_string(detector.hiding()) +
                                       " of them may have ordered others: races across them are not reported"));
  }
  for (const std::string& warning : log.warnings()) analysis.warnings.push_back(warning);
}

} // namespace

Expected<Analysis> analyze(const std::string& trace, const AnalyzeOptions& options) {
  Expected<trace::TraceReader> reader = trace::TraceReader::open(trace);
  if (!reader) return reader.error();
  Analysis analysis;
  for (std::size_t index = 0; index < reader->logs().size(); ++index) {
    Expected<trace::LogReader> log = reader->open_log(index);
    if (!log) {
      analysis.summary.complete = false;
      analysis.warnings.push_back(log.error().message());
      if (reader->logs().size() == 1) return log.error();
      continue;
    }
    std::mutex mutex; // threads of the analysis ask for code
    std::map<trace::BlobHash, std::string> unreadable;
    auto text = [&](const trace::Module& module) {
      if (module.image == trace::BlobHash{}) return std::string(); // it has none
      const Expected<std::vector<std::uint8_t>> bytes = reader->blob(module.image);
      if (bytes) return std::string(bytes->begin(), bytes->end());
      std::lock_guard lock(mutex);
      unreadable.try_emplace(module.image, bytes.error().message());
      return std::string();
    };
    analyze_log(*log, text, options, analysis);
    if (!unreadable.empty())
      analysis.warnings.push_back(unreadable.begin()->second + ": the accesses are checked, but it is not known what " +
                                  (unreadable.size() == 1 ? "this module's code does"
                                                          : "the code of this module and of " +
                                                                std::to_string(unreadable.size() - 1) + " more does") +
                                  " with the values that it reads");
  }
  analysis.summary.races = analysis.races.size();
  analysis.summary.order_dependent = analysis.order_dependent.size();
  return analysis;
}

} // namespace deadheat::detect
