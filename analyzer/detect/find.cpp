#include "analyzer/detect/find.h"

#include <unistd.h>

#include <algorithm>

namespace deadheat::detect {

namespace {

class FeedSource final : public Source {
 public:
  explicit FeedSource(const Feed& feed) : feed_(feed) {}
  std::size_t chunks() const override { return 1; }
  void play(std::size_t, trace::RecordVisitor& visitor) const override { feed_(visitor); }

 private:
  const Feed& feed_;
};

// What one pass, in as many goes as it takes, has found.
struct PassResult {
  std::unique_ptr<Detector> detector; // of the first go
  std::uint64_t stretches = 0; // Detector::stretches, of any go the most
  PartFindings findings;
};

class Finder {
 public:
  Finder(const Source& source, const FindOptions& options) : source_(source), options_(options) {
    workers_ = std::clamp(options.jobs, 1u, most_workers);
    limit_ = options.memory_limit;
    if (!limit_) limit_ = std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE)) / 2;
  }

  Findings find() {
    Findings findings;
    PassResult first = pass(Detector::Pass::filter, nullptr, nullptr, findings);
    findings.suspect_words = suspects_.words();
    findings.detector = std::move(first.detector);
    findings.unchecked = first.findings.unchecked;
    findings.unknown = findings.detector->unknown() + first.findings.unknown;
    findings.order_dependent = first.findings.order_dependent;
    findings.additions = first.findings.additions;
    const bool flagged = findings.detector->flagged_reads();
    if (!suspects_.empty()) name_races(findings);
    if (flagged) find_refills(findings);
    findings.races = ranked(races_);
    for (const auto& [key, race] : races_.races) {
      if (key.race_class == RaceClass::data) findings.uncertain.erase({key.a, key.b});
    }
    return findings;
  }

 private:
  void name_races(Findings& findings) {
    const WaitLoops wait_loops = findings.detector->wait_loops();
    const auto launches = findings.detector->take_launches();
    findings.detector.reset();
    PassResult second = pass(Detector::Pass::pairs, &wait_loops, &launches, findings);
    findings.detector = std::move(second.detector);
    for (const auto& [place, count] : second.findings.order_dependent) findings.order_dependent[place] += count;
    findings.unchecked += second.findings.unchecked;
    races_ = std::move(second.findings);
  }

  // All of memory at once: what is remembered are reads of slots, of which there are few. Nothing else is suspect.
  void find_refills(Findings& findings) {
    workers_ = 1;
    one_by_one_ = findings.detector->operations().one_by_one();
    PassResult third = pass(Detector::Pass::refills, nullptr, nullptr, findings);
    findings.unchecked += third.detector->refills().left_out();
    findings.slot_stretches = third.stretches;
    findings.detector->know_of_findings(*third.detector);
    merge(races_, third.findings);
  }

  PassResult pass(Detector::Pass pass, const WaitLoops* wait_loops,
                  const order::IdTable<order::OperationIndex>* launches, Findings& findings) {
    PassResult result;
    std::vector<PartFindings> parts(partitions);
    Partitions left;
    left.set();
    static constexpr const char* names[] = {"looking for races", "naming races", "looking for slots written too early"};
    const char* what = names[std::size_t(pass)];
    while (left.any()) {
      std::vector<std::unique_ptr<Detector>> detectors;
      std::vector<Suspects> found(workers_);
      std::vector<Consume> consumers;
      std::vector<order::Stamp> stamps{0};
      order::Stamp played = 0;
      for (unsigned worker = 0; worker < workers_; ++worker) {
        Detector::Setup setup;
        setup.pass = pass;
        setup.worker = worker;
        setup.workers = workers_;
        for (unsigned part = worker; part < partitions; part += workers_) setup.active[part] = left[part];
        setup.memory_limit = limit_ / workers_;
        setup.everything_to_all = everything_to_all_;
        setup.wait_loops = wait_loops;
        setup.several_devices = several_devices_;
        setup.one_by_one = one_by_one_;
        setup.heard = &heard_;
        setup.flagged = options_.flagged;
        setup.taken = options_.taken;
        setup.bounds = options_.bounds;
        setup.most_operations = options_.most_operations;
        Suspects& suspects = pass == Detector::Pass::pairs ? suspects_ : found[worker];
        detectors.push_back(std::make_unique<Detector>(suspects, setup));
        consumers.push_back([&detector = *detectors.back(), &stamps, &played, worker](const Batch& batch) {
          detector.play(batch);
          if (worker != 0) return;
          played += batch.stamps;
          if (batch.last) stamps.push_back(played);
        });
      }
      Routing routing;
      routing.workers = workers_;
      routing.everything_to_all = everything_to_all_;
      routing.most_bytes_ahead = std::min(workers_ * Routing{}.most_bytes_ahead, options_.most_bytes_ahead);
      routing.piece_bytes = options_.piece_bytes;
      if (pass == Detector::Pass::pairs) {
        routing.suspects = &suspects_;
        routing.operations = launches;
      }
      const std::size_t chunks = source_.chunks();
      ChunksDone done;
      if (options_.progress) {
        done = [&](std::size_t count) { options_.progress(what, chunks ? double(count) / double(chunks) : 1); };
      }
      run(source_, routing, consumers, done);
      ++findings.goes;
      if (!everything_to_all_ && workers_ > 1 &&
          std::any_of(detectors.begin(), detectors.end(), [](const auto& detector) { return detector->strays(); })) {
        everything_to_all_ = true;
        continue;
      }
      if (!several_devices_ && std::any_of(detectors.begin(), detectors.end(),
                                           [](const auto& detector) { return detector->unexpected_device(); })) {
        several_devices_ = true;
        continue;
      }
      for (unsigned worker = 0; worker < workers_; ++worker) {
        const Detector& detector = *detectors[worker];
        for (unsigned part = 0; part < partitions; ++part) {
          if (!detector.active()[part] || !left[part]) continue;
          parts[part] = detector.findings(part);
        }
        left &= ~detector.active();
        suspects_.add(found[worker]);
        if (pass == Detector::Pass::filter) heard_.add(detector.heard());
        findings.peers |= detector.peers();
        result.stretches = std::max(result.stretches, detector.stretches());
        findings.uncertain.insert(detector.uncertain().begin(), detector.uncertain().end());
      }
      if (!result.detector) {
        result.detector = std::move(detectors[0]);
        findings.chunk_stamps = std::move(stamps);
      }
      for (const auto& detector : detectors) {
        if (detector) result.detector->know_of_findings(*detector);
      }
    }
    for (const PartFindings& part : parts) merge(result.findings, part);
    return result;
  }

  const Source& source_;
  const FindOptions& options_;
  unsigned workers_ = 1;
  std::uint64_t limit_ = 0;
  bool everything_to_all_ = false, several_devices_ = false, one_by_one_ = false;
  Suspects suspects_;
  HeardPlaces heard_;
  PartFindings races_;
};

} // namespace

Findings find_races(const Source& source, const FindOptions& options) { return Finder(source, options).find(); }

Findings find_races(const Feed& feed, const FindOptions& options) { return find_races(FeedSource(feed), options); }

} // namespace deadheat::detect
