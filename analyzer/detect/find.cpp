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

  struct Go { // over the records
    std::vector<std::unique_ptr<Detector>> detectors; // by worker
    std::vector<Suspects> found; // of the first pass, by worker
    std::vector<order::Stamp> stamps{0}; // before each chunk
  };
  // Workers that have nothing of the share leave their memory to the others.
  Go go(const Detector::Setup& of_all, const Share& share, const order::IdTable<order::OperationIndex>* launches) {
    Go now;
    now.found.resize(workers_);
    std::vector<Partitions> parts(workers_);
    for (unsigned part = 0; part < partitions; ++part) parts[part % workers_][part] = share.parts[part];
    const auto sharers = std::count_if(parts.begin(), parts.end(), [](const Partitions& of) { return of.any(); });
    std::vector<Consume> consumers;
    order::Stamp played = 0;
    for (unsigned worker = 0; worker < workers_; ++worker) {
      Detector::Setup setup = of_all;
      setup.worker = worker;
      setup.workers = workers_;
      setup.share = {parts[worker], share.slice};
      setup.memory_limit = limit_ / std::uint64_t(sharers);
      setup.everything_to_all = everything_to_all_;
      setup.several_devices = several_devices_;
      setup.one_by_one = one_by_one_;
      setup.heard = &heard_;
      setup.flagged = options_.flagged;
      setup.taken = options_.taken;
      setup.bounds = options_.bounds;
      setup.most_operations = options_.most_operations;
      Suspects& suspects = setup.pass == Detector::Pass::pairs ? suspects_ : now.found[worker];
      now.detectors.push_back(std::make_unique<Detector>(suspects, setup));
      consumers.push_back([&detector = *now.detectors.back(), &now, &played, worker](const Batch& batch) {
        detector.play(batch);
        if (worker != 0) return;
        played += batch.stamps;
        if (batch.last) now.stamps.push_back(played);
      });
    }
    Routing routing;
    routing.workers = workers_;
    routing.everything_to_all = everything_to_all_;
    routing.most_bytes_ahead = std::min(workers_ * Routing{}.most_bytes_ahead, options_.most_bytes_ahead);
    routing.piece_bytes = options_.piece_bytes;
    if (of_all.pass == Detector::Pass::pairs) {
      routing.suspects = &suspects_;
      routing.operations = launches;
    }
    const std::size_t chunks = source_.chunks();
    ChunksDone done;
    if (options_.progress) {
      static constexpr const char* names[] = {"looking for races", "naming races",
                                              "looking for slots written too early"};
      const char* const what = names[std::size_t(of_all.pass)];
      done = [this, what, chunks](std::size_t count) {
        options_.progress(what, chunks ? double(count) / double(chunks) : 1);
      };
    }
    run(source_, routing, consumers, done);
    return now;
  }

  // Was something missing in what the go was set up for, that is to be made again?
  bool was_in_vain(const Go& now) {
    const auto any = [&](auto&& of) {
      return std::any_of(now.detectors.begin(), now.detectors.end(),
                         [&](const auto& detector) { return of(*detector); });
    };
    if (!everything_to_all_ && workers_ > 1 && any([](const Detector& detector) { return detector.strays(); }))
      return everything_to_all_ = true;
    if (!several_devices_ && any([](const Detector& detector) { return detector.unexpected_device(); }))
      return several_devices_ = true;
    return false;
  }

  PassResult pass(Detector::Pass pass, const WaitLoops* wait_loops,
                  const order::IdTable<order::OperationIndex>* launches, Findings& findings) {
    PassResult result;
    std::vector<PartFindings> parts(partitions);
    std::vector<Share> shares(1); // still to be looked at, each of another slice
    shares[0].parts.set();
    unsigned halved = 0;
    while (!shares.empty()) {
      Detector::Setup setup;
      setup.pass = pass;
      setup.wait_loops = wait_loops;
      setup.may_halve = halved < most_halved;
      Go now = go(setup, shares.back(), launches);
      ++findings.goes;
      if (was_in_vain(now)) continue;
      Share left = shares.back();
      shares.pop_back();
      for (unsigned worker = 0; worker < workers_; ++worker) {
        const Detector& detector = *now.detectors[worker];
        for (unsigned part = 0; part < partitions; ++part) {
          if (detector.active()[part]) merge(parts[part], detector.findings(part));
        }
        left.parts &= ~detector.active();
        if (const auto& of = detector.halved()) {
          left.parts.reset(of->part);
          for (const Slice& slice : of->slices) add(shares, of->part, slice);
          ++halved;
        }
        suspects_.add(now.found[worker]);
        if (pass == Detector::Pass::filter) heard_.add(detector.heard());
        findings.peers |= detector.peers();
        result.stretches = std::max(result.stretches, detector.stretches());
        findings.uncertain.insert(detector.uncertain().begin(), detector.uncertain().end());
      }
      if (left.parts.any()) shares.push_back(left);
      if (!result.detector) {
        result.detector = std::move(now.detectors[0]);
        findings.chunk_stamps = std::move(now.stamps);
      }
      for (const auto& detector : now.detectors) {
        if (detector) result.detector->know_of_findings(*detector);
      }
    }
    findings.halved += halved;
    for (const PartFindings& part : parts) merge(result.findings, part);
    return result;
  }

  static void add(std::vector<Share>& shares, unsigned part, const Slice& slice) {
    auto at = std::find_if(shares.begin(), shares.end(), [&](const Share& share) { return share.slice == slice; });
    if (at == shares.end()) at = shares.insert(shares.end(), Share{{}, slice});
    at->parts.set(part);
  }

  static constexpr unsigned most_halved = 256; // in one pass: each is another go, or two
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
