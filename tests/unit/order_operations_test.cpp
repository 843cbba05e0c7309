// Operations in random order of streams, events, graphs and host waits: what OperationClocks orders is what the rules
// of CUDA order, said once more and naively.
//
// The rules (CUDA C++ Programming Guide, "Streams", "Events", "CUDA Graphs"; Runtime API, "Stream synchronization
// behavior" and "API synchronization behavior"): what a stream is given, it does in order. The legacy default stream
// and every stream that is not non-blocking wait for each other. A wait makes what its stream is given afterwards wait
// for the event's last record so far; in the legacy stream it also waits for those others itself. What the host has
// waited for comes before whatever it submits afterwards. A graph's nodes are ordered by its edges alone; its roots
// come after what is before it in the stream, all its nodes before what follows there. A host function itself comes
// after what the host has waited for when it begins; what follows it in streams does so only where it ran on and may
// have been told, and then after all that the host knew when it ended.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/order/operation_clocks.h"

namespace deadheat::test {
namespace {

using Kind = trace::StreamCreate::Kind;
using HostKind = trace::HostWait::Kind;

constexpr Kind stream_kinds[] = {Kind::legacy, Kind::blocking, Kind::blocking, Kind::non_blocking, Kind::per_thread};
constexpr std::uint32_t stream_count = 5, event_count = 2; // numbers from 1

bool coupled(std::uint32_t a, std::uint32_t b) {
  if (a == b) return true;
  Kind one = stream_kinds[a - 1], two = stream_kinds[b - 1];
  return (one == Kind::legacy && two != Kind::non_blocking) || (two == Kind::legacy && one != Kind::non_blocking);
}

// Everything that happens, as nodes of a graph whose paths are the order: the naive side.
class Naive {
 public:
  // Something in a stream; it comes after what is before it there and in the streams coupled with it.
  std::size_t command(std::uint32_t stream) { return add(stream, true, entry(stream)); }
  // A wait in the legacy stream is an action like any other there ("Stream synchronization behavior").
  std::size_t wait(std::uint32_t stream, std::size_t record) {
    std::vector<std::size_t> after;
    if (stream_kinds[stream - 1] == Kind::legacy) after = entry(stream);
    after.push_back(record);
    return add(stream, true, std::move(after));
  }
  // A graph's node: after those given, or after what the graph launch comes after. It holds up nothing by itself.
  std::size_t node(std::vector<std::size_t> after) { return add(0, false, std::move(after)); }
  std::size_t graph_end(std::uint32_t stream, std::vector<std::size_t> nodes) {
    return add(stream, true, std::move(nodes));
  }
  std::vector<std::size_t> entry(std::uint32_t stream) const {
    std::vector<std::size_t> before;
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      if (nodes_[at].in_stream && coupled(stream, nodes_[at].stream)) before.push_back(at);
    }
    return before;
  }
  // The host knows that these are complete.
  void host(const std::vector<std::size_t>& complete) { host_.insert(host_.end(), complete.begin(), complete.end()); }
  void host_device() {
    for (std::size_t at = 0; at < nodes_.size(); ++at) host_.push_back(at);
  }
  void host_stream(std::uint32_t stream) {
    if (stream_kinds[stream - 1] == Kind::legacy) return host(entry(stream));
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      if (nodes_[at].in_stream && nodes_[at].stream == stream) host_.push_back(at);
    }
  }
  bool host_knows(std::size_t at) const {
    return std::any_of(host_.begin(), host_.end(),
                       [&](std::size_t known) { return known == at || ordered(at, known); });
  }
  // A function begins: it alone knows what the host knows.
  void begins(std::size_t function) { nodes_[function].own = host_; }
  void told(std::size_t function) {
    for (std::size_t known : host_) {
      if (known != function) nodes_[function].after.push_back(known);
    }
  }
  const std::vector<std::size_t>& before(std::size_t at) const { return nodes_[at].after; }
  bool ordered(std::size_t first, std::size_t second) const { // is there a path? depth first
    std::vector<bool> seen(nodes_.size());
    std::vector<std::size_t> stack = nodes_[second].after;
    stack.insert(stack.end(), nodes_[second].own.begin(), nodes_[second].own.end());
    while (!stack.empty()) {
      std::size_t at = stack.back();
      stack.pop_back();
      if (at == first) return true;
      if (seen[at]) continue;
      seen[at] = true;
      stack.insert(stack.end(), nodes_[at].after.begin(), nodes_[at].after.end());
    }
    return false;
  }

 private:
  struct Node {
    std::uint32_t stream = 0;
    bool in_stream = false;
    std::vector<std::size_t> after, own;
  };
  std::size_t add(std::uint32_t stream, bool in_stream, std::vector<std::size_t> after) {
    after.insert(after.end(), host_.begin(), host_.end());
    nodes_.push_back({stream, in_stream, std::move(after), {}});
    return nodes_.size() - 1;
  }
  std::vector<Node> nodes_;
  std::vector<std::size_t> host_;
};

// One that is told what is over, and forgets what is settled, beside one that is not.
class Clocks {
 public:
  template <typename Record>
  void apply(const Record& record) {
    remembering_.apply(record);
    forgetting_.apply(record);
  }
  order::OperationIndex submitted(const trace::Operation& operation) {
    forgetting_.submitted(operation);
    over_.push_back(false);
    return remembering_.submitted(operation);
  }
  bool is_over(order::OperationIndex operation) const { return over_[operation - 1]; }
  void begins(order::OperationIndex operation) {
    remembering_.begins(operation);
    forgetting_.begins(operation);
  }
  void begins_on_host(order::OperationIndex operation) {
    begins(operation);
    remembering_.begins_on_host(operation);
    forgetting_.begins_on_host(operation);
  }
  void function_ended(order::OperationIndex operation) {
    over_[operation - 1] = true;
    remembering_.ended(operation);
    forgetting_.ended(operation);
  }
  void ended(order::OperationIndex operation) {
    over_[operation - 1] = true;
    forgetting_.ended(operation);
  }
  void keep(order::OperationIndex operation) { forgetting_.keep(operation); }
  std::uint32_t id(order::OperationIndex operation) const { return remembering_.id(operation); }
  bool ordered(order::OperationIndex first, order::OperationIndex second) const {
    return remembering_.ordered(first, second);
  }
  bool ordered_to_the_forgetting(order::OperationIndex first, order::OperationIndex second) const {
    return forgetting_.ordered(first, second);
  }
  bool has_forgotten(order::OperationIndex operation) const {
    const auto size = [](const order::ChainClock& clock) { return clock.end() - clock.begin(); };
    return size(forgetting_.complete_before(operation)) < size(remembering_.complete_before(operation));
  }

 private:
  order::OperationClocks remembering_, forgetting_{1};
  std::vector<bool> over_;
};

// Both sides of one random program.
class Program {
 public:
  Program() {
    for (std::uint32_t stream = 2; stream <= stream_count; ++stream) {
      clocks_.apply(trace::StreamCreate{stream, stream_kinds[stream - 1], 0, 0, 1});
    }
  }

  void step(std::uint64_t bits) {
    auto below = [&](std::uint32_t count) {
      std::uint32_t choice = std::uint32_t(bits % count);
      bits /= count;
      return choice;
    };
    const std::uint32_t what = below(27), stream = 1 + below(stream_count), event = 1 + below(event_count);
    if (what < 5) {
      operation(stream, {}, naive_.command(stream));
      text_ += "operation in stream " + std::to_string(stream) + "\n";
    } else if (what < 8) {
      std::size_t at = naive_.command(stream);
      std::uint32_t id = operation(stream, {}, at);
      clocks_.apply(trace::EventRecord{event, stream, id, 1});
      records_[event - 1] = {at, id};
      text_ += "record of event " + std::to_string(event) + " in stream " + std::to_string(stream) + "\n";
    } else if (what < 11) {
      if (!records_[event - 1]) return; // a wait for an event that was never recorded does nothing
      clocks_.apply(trace::StreamWait{stream, event, below(2) ? records_[event - 1]->id : 0, 0, 1});
      naive_.wait(stream, records_[event - 1]->at);
      text_ += "stream " + std::to_string(stream) + " waits for event " + std::to_string(event) + "\n";
    } else if (what == 11) {
      host_wait(HostKind(below(4)), stream, event, below(2));
    } else if (what < 14) {
      copy(stream, below(2), trace::Copy::Direction(below(3)), below(2), below(2));
    } else if (what == 14) {
      batch(stream, 1 + below(3), bits);
    } else if (what < 17) {
      graph(stream, 1 + below(3), bits);
    } else if (what < 22) {
      for (std::uint32_t more = below(8) + 1; more; --more) end_one();
    } else if (what < 24) {
      functions_.push_back(pairs_.size());
      operation(stream, {}, naive_.command(stream));
      text_ += "host function in stream " + std::to_string(stream) + "\n";
    } else if (what < 26) {
      run_function(below(3), bits);
    } else if (!pairs_.empty()) {
      kept_.push_back(pairs_[below(std::uint32_t(pairs_.size()))].index);
      if (clocks_.has_forgotten(kept_.back()))
        kept_.pop_back(); // it comes too late
      else
        clocks_.keep(kept_.back());
    }
  }

  // What has not run by now begins.
  void begin_the_rest() {
    for (const Both& pair : pairs_) {
      if (!clocks_.is_over(pair.index)) clocks_.begins(pair.index);
    }
  }
  std::size_t told() const { return told_; }

  // Nothing when both sides say the same of every pair.
  std::string difference() const {
    for (std::size_t a = 0; a < pairs_.size(); ++a) {
      for (std::size_t b = 0; b < pairs_.size(); ++b) {
        bool found = clocks_.ordered(pairs_[a].index, pairs_[b].index),
             expected = naive_.ordered(pairs_[a].at, pairs_[b].at);
        if (found != expected) {
          return text_ + "operation " + std::to_string(a + 1) + (expected ? " comes" : " does not come") + " before " +
                 std::to_string(b + 1) + ", and the clocks say otherwise\n";
        }
        const order::OperationIndex second = pairs_[b].index;
        const bool asked = !clocks_.is_over(second) || std::count(kept_.begin(), kept_.end(), second);
        if (asked && clocks_.ordered_to_the_forgetting(pairs_[a].index, second) != expected) {
          return text_ + "operation " + std::to_string(a + 1) + (expected ? " comes" : " does not come") + " before " +
                 std::to_string(b + 1) + ", which was forgotten\n";
        }
      }
    }
    return "";
  }
  std::size_t forgotten() const {
    return std::count_if(pairs_.begin(), pairs_.end(), [&](const Both& at) { return clocks_.has_forgotten(at.index); });
  }
  std::size_t unordered() const {
    std::size_t count = 0;
    for (std::size_t a = 0; a < pairs_.size(); ++a) {
      for (std::size_t b = a + 1; b < pairs_.size(); ++b) count += !naive_.ordered(pairs_[a].at, pairs_[b].at);
    }
    return count;
  }

 private:
  struct Both {
    order::OperationIndex index = 0;
    std::size_t at = 0;
  };
  bool can_run(const Both& second) const {
    const bool waits = std::any_of(pairs_.begin(), pairs_.end(), [&](const Both& first) {
      return !clocks_.is_over(first.index) && naive_.ordered(first.at, second.at);
    });
    return !waits && !clocks_.is_over(second.index);
  }
  // The first host function that can: while it runs the host waits for some operations that it does not hold up.
  void run_function(std::uint32_t waits, std::uint64_t bits) {
    const auto next = std::find_if(functions_.begin(), functions_.end(), [&](std::size_t function) {
      return can_run(pairs_[function]) && !naive_.host_knows(pairs_[function].at);
    });
    if (next == functions_.end()) return;
    const Both function = pairs_[*next];
    const trace::HostWait here{HostKind::operation, clocks_.id(function.index), 0, false, 1};
    text_ += "operation " + std::to_string(function.index) + " runs on the host";
    clocks_.begins_on_host(function.index);
    naive_.begins(function.at);
    clocks_.apply(here);
    naive_.host({function.at});
    for (; waits; --waits, bits /= 64) {
      const Both& other = pairs_[bits % pairs_.size()];
      if (other.at == function.at || naive_.ordered(function.at, other.at)) continue;
      clocks_.apply(trace::HostWait{HostKind::operation, clocks_.id(other.index), 0, false, 1});
      naive_.host({other.at});
      text_ += ", the host waits for " + std::to_string(other.index);
    }
    if (bits % 2) {
      clocks_.apply(here);
      naive_.told(function.at);
      ++told_;
      text_ += ", and tells it";
    }
    clocks_.function_ended(function.index);
    text_ += "\n";
  }
  // Ends the first operation that can have run.
  void end_one() {
    for (const Both& second : pairs_) {
      if (!can_run(second)) continue;
      text_ += "operation " + std::to_string(second.index) + " ends\n";
      clocks_.begins(second.index);
      return clocks_.ended(second.index);
    }
  }
  std::uint32_t operation(std::uint32_t stream, trace::Operation operation, std::size_t at) {
    operation.id = ++operations_;
    operation.stream = stream;
    pairs_.push_back({clocks_.submitted(operation), at});
    return operation.id;
  }
  void host_wait(HostKind kind, std::uint32_t stream, std::uint32_t event, bool query) {
    trace::HostWait wait{kind, 0, 0, query, 1};
    switch (kind) {
      case HostKind::device: naive_.host_device(); break;
      case HostKind::stream:
        wait.id = stream;
        naive_.host_stream(stream);
        break;
      case HostKind::event:
        if (!records_[event - 1]) return;
        wait.id = event;
        naive_.host({records_[event - 1]->at});
        break;
      case HostKind::operation:
        if (pairs_.empty()) return;
        wait.id = clocks_.id(pairs_[stream % pairs_.size()].index);
        naive_.host({pairs_[stream % pairs_.size()].at});
        break;
    }
    clocks_.apply(wait);
    text_ += "host waits, kind " + std::to_string(int(kind)) + " stream " + std::to_string(stream) + " event " +
             std::to_string(event) + "\n";
  }
  // Runtime API, "API synchronization behavior": what the host knows when the call returns.
  trace::Copy copy_of(bool asynchronous, trace::Copy::Direction direction, bool pageable) {
    using Direction = trace::Copy::Direction;
    trace::Copy copy;
    copy.api = asynchronous ? "cudaMemcpyAsync" : "cudaMemcpy";
    copy.direction = direction;
    copy.pageable_destination = pageable && direction != Direction::h2d;
    copy.pageable_source = pageable && direction != Direction::d2h;
    text_ += copy.api + " of direction " + std::to_string(int(direction)) + (pageable ? " pageable" : " pinned") + ", ";
    return copy;
  }
  void copy(std::uint32_t stream, bool asynchronous, trace::Copy::Direction direction, bool pageable, bool large) {
    using Direction = trace::Copy::Direction;
    trace::Operation submitted;
    trace::Copy made = copy_of(asynchronous, direction, pageable);
    made.source.width = made.destination.width = large ? 65537 : 65536;
    text_ += std::to_string(made.source.width) + " bytes, ";
    submitted.what = std::move(made);
    std::size_t at = naive_.command(stream);
    operation(stream, submitted, at);
    text_ += "in stream " + std::to_string(stream) + "\n";
    if (direction == Direction::h2h) naive_.host({at});
    if (direction == Direction::d2h && !asynchronous) naive_.host({at});
    if (direction == Direction::h2d && !asynchronous && !pageable) naive_.host({at});
    // From pageable memory the bytes are staged, and the call may return before they reached the device; with few of
    // them at once.
    if (direction == Direction::h2d && !asynchronous && pageable && large) naive_.host(naive_.before(at));
  }
  // cudaMemcpyBatchAsync: what comes before it comes before each of its copies, and they do not come before each other.
  void batch(std::uint32_t stream, std::uint32_t count, std::uint64_t bits) {
    using Direction = trace::Copy::Direction;
    std::uint32_t id = ++graphs_;
    clocks_.apply(trace::GraphLaunch{id, 0, stream, 1});
    std::vector<std::size_t> before = naive_.entry(stream), copies, made;
    text_ += "batch in stream " + std::to_string(stream) + ": ";
    for (std::uint32_t i = 0; i < count; ++i, bits /= 8) {
      const auto direction = Direction(bits % 4);
      const bool pageable = bits / 4 % 2;
      trace::Operation submitted;
      submitted.graph_launch = id;
      submitted.what = copy_of(true, direction, pageable);
      copies.push_back(naive_.node(before));
      operation(stream, submitted, copies.back());
      if (direction == Direction::h2h) made.push_back(copies.back());
    }
    clocks_.apply(trace::GraphEnd{id});
    naive_.graph_end(stream, copies);
    naive_.host(made);
    text_ += "\n";
  }
  void graph(std::uint32_t stream, std::uint32_t count, std::uint64_t bits) {
    std::uint32_t id = ++graphs_;
    clocks_.apply(trace::GraphLaunch{id, 1, stream, 1});
    std::vector<std::size_t> before = naive_.entry(stream), nodes;
    std::vector<std::uint32_t> ids;
    text_ += "graph in stream " + std::to_string(stream) + ":";
    for (std::uint32_t node = 0; node < count; ++node) {
      trace::Operation submitted;
      submitted.graph_launch = id;
      std::vector<std::size_t> after;
      text_ += " (";
      for (std::uint32_t earlier = 0; earlier < node; ++earlier, bits /= 2) {
        if (bits % 2 == 0) continue;
        submitted.node_dependencies.push_back(ids[earlier]);
        after.push_back(nodes[earlier]);
        text_ += std::to_string(earlier);
      }
      text_ += ")";
      nodes.push_back(naive_.node(after.empty() ? before : after));
      ids.push_back(operation(stream, submitted, nodes.back()));
    }
    clocks_.apply(trace::GraphEnd{id});
    naive_.graph_end(stream, nodes);
    text_ += "\n";
  }

  struct Record {
    std::size_t at = 0;
    std::uint32_t id = 0;
  };
  Clocks clocks_;
  Naive naive_;
  std::vector<Both> pairs_;
  std::optional<Record> records_[event_count];
  std::vector<order::OperationIndex> kept_;
  std::vector<std::size_t> functions_; // places in pairs_
  std::uint32_t operations_ = 0, graphs_ = 0;
  std::size_t told_ = 0;
  std::string text_;
};

RC_GTEST_PROP(Operations, ClocksAgreeWithTheRules, (const std::vector<std::uint64_t>& steps)) {
  Program program;
  for (std::size_t i = 0; i < steps.size() && i < 40; ++i) program.step(steps[i]);
  program.begin_the_rest();
  std::string difference = program.difference();
  if (!difference.empty()) RC_FAIL(difference);
}

TEST(Operations, ManyPrograms) {
  std::uint64_t state = 88172645463325252ull;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  std::size_t unordered = 0, forgotten = 0, told = 0;
  for (int round = 0; round < 3000; ++round) {
    Program program;
    std::size_t length = 2 + next() % 40;
    for (std::size_t i = 0; i < length; ++i) program.step(next());
    program.begin_the_rest();
    std::string difference = program.difference();
    ASSERT_EQ(difference, "");
    unordered += program.unordered();
    forgotten += program.forgotten();
    told += program.told();
  }
  EXPECT_GT(forgotten, 1000u);
  EXPECT_GT(told, 200u);
  EXPECT_GT(unordered, 10000u); // the programs leave something to decide
}

} // namespace
} // namespace deadheat::test
