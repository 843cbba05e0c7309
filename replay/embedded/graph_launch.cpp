// Launches of executable graphs: the nodes' work is submitted, each behind what it depends on.
//
// What runs of a conditional node's bodies, the device decides. The device of this process advances when the host
// calls, so the launch lets it run as far as the node, reads the condition (a copy, deadheat/conditions.h), submits the
// body that it names, and so on until no further turn comes. All that needs no decision is submitted before. To
// everybody else the launch is as asynchronous as others: nobody is told of what is complete.
#include <algorithm>

#include "deadheat/conditions.h"
#include "replay/embedded/graph.h"

namespace deadheat::embedded {

namespace {

using Step = GraphExec::Step;
using Operations = std::vector<std::uint32_t>;

bool has_kernel(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.type == cudaGraphNodeTypeKernel || std::any_of(step.bodies.begin(), step.bodies.end(), has_kernel);
  });
}

class Submission {
 public:
  Submission(Call& call, Stream& stream, std::uint32_t launch) : call_(call), stream_(stream.id), launch_(launch) {}

  // Work of every launch's beginning. `next`: number of the first.
  cudaError_t assign(const std::vector<Condition>& conditions, std::uint32_t next, Operations* done);
  // Submits the steps, those that depend on no others behind `entry`. `exits`: what comes behind all of them waits for.
  cudaError_t submit(const std::vector<Step>& steps, const Operations& entry, Operations* exits);

 private:
  cudaError_t submit_step(const Step& step, Operations after, Operations* ends);
  cudaError_t decide(const Step& step, Operations after, Operations* ends);
  cudaError_t read_condition(const Step& step, const Operations& after, std::uint32_t* operation);
  trace::Operation place(std::uint32_t number, const Operations& after) const {
    trace::Operation place;
    place.graph_launch = launch_;
    place.graph_node = number;
    place.node_dependencies = after;
    return place;
  }

  Call& call_;
  std::uint32_t stream_;
  std::uint32_t launch_;
};

cudaError_t Submission::assign(const std::vector<Condition>& conditions, std::uint32_t next, Operations* done) {
  for (const Condition& condition : conditions) {
    if (!condition.assigned) continue;
    trace::Set set;
    set.destination = {condition.handle, 0, sizeof condition.value};
    set.value = condition.value;
    set.element_bytes = sizeof condition.value;
    set.api = condition_default;
    done->push_back(0);
    const cudaError_t status = submit_now(call_, stream_, {std::move(set)}, place(next++, {}), &done->back());
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t Submission::submit_step(const Step& step, Operations after, Operations* ends) {
  const Work nothing{trace::Marker{}};
  Event* event = step.enabled && step.work.event ? call_.event(step.work.event) : nullptr;
  std::uint32_t operation = 0;
  if (event && step.work.event_waits && event->recorded) {
    if (after.empty()) { // it waits for what precedes the graph, too
      const cudaError_t status = submit_now(call_, stream_, nothing, place(step.number, after), &operation);
      if (status != cudaSuccess) return status;
      after = {operation};
    }
    after.push_back(call_.device().event_operation(event->id));
  }
  Work work = step.enabled ? step.work : nothing;
  if (auto* kernel = std::get_if<trace::Launch>(&work.what)) kernel->programmatic = step.programmatic;
  const cudaError_t status = submit_now(call_, stream_, work, place(step.number, after), &operation);
  *ends = {operation};
  if (event && !step.work.event_waits && status == cudaSuccess) {
    event->position = call_.runtime.submitted;
    event->recorded = true;
    event->capture = nullptr;
    event->nodes.clear();
    call_.device().event_recorded(event->id, stream_, operation, call_.thread.number);
  }
  return status;
}

cudaError_t Submission::read_condition(const Step& step, const Operations& after, std::uint32_t* operation) {
  trace::Copy copy;
  copy.direction = trace::Copy::Direction::d2h;
  copy.source = {step.handle, 0, sizeof *step.decision};
  copy.destination = {reinterpret_cast<std::uint64_t>(step.decision), 0, sizeof *step.decision};
  copy.pageable_destination = true;
  copy.api = condition_read;
  cudaError_t status = submit_now(call_, stream_, {std::move(copy)}, place(step.number, after), operation);
  if (status != cudaSuccess) return status;
  status = call_.complete(*operation);
  if (status == cudaErrorLaunchTimeout) {
    say_once(
        "the embedded device runs a graph with conditional nodes as far as the last of them before its launch "
        "returns: what that waits for must not come from the thread that launches it");
  }
  return status;
}

// Runtime API, cudaConditionalNodeParams: which body runs, and how often.
cudaError_t Submission::decide(const Step& step, Operations after, Operations* ends) {
  for (;;) {
    std::uint32_t read = 0;
    cudaError_t status = read_condition(step, after, &read);
    if (status != cudaSuccess) return status;
    const std::uint32_t value = *step.decision;
    const bool by_number = step.condition == cudaGraphCondTypeSwitch;
    const std::size_t body = by_number ? value : value ? 0 : 1;
    const bool loops = step.condition == cudaGraphCondTypeWhile;
    *ends = {read};
    if (body >= step.bodies.size()) return cudaSuccess;
    if (loops && !has_kernel(step.bodies[body])) {
      say("the device hangs: a WHILE node has no kernel that could end it");
      return call_.runtime.sticky = cudaErrorLaunchTimeout;
    }
    status = submit(step.bodies[body], {read}, ends);
    if (status != cudaSuccess || !loops) return status;
    after = *ends;
  }
}

cudaError_t Submission::submit(const std::vector<Step>& steps, const Operations& entry, Operations* exits) {
  std::vector<Operations> ends(steps.size());
  std::vector<bool> done(steps.size()), inner(steps.size());
  auto ready = [&](std::size_t i) {
    return !done[i] && std::all_of(steps[i].after.begin(), steps[i].after.end(),
                                   [&](std::uint32_t before) { return done[before]; });
  };
  auto submit_one = [&](std::size_t i) {
    Operations after = steps[i].after.empty() ? entry : Operations{};
    for (std::uint32_t before : steps[i].after) {
      inner[before] = true;
      after.insert(after.end(), ends[before].begin(), ends[before].end());
    }
    done[i] = true;
    const bool decides = steps[i].handle && steps[i].enabled;
    return decides ? decide(steps[i], std::move(after), &ends[i]) : submit_step(steps[i], std::move(after), &ends[i]);
  };
  for (bool left = true; left;) { // what needs no decision first
    left = false;
    std::size_t deciding = steps.size();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!ready(i)) continue;
      if (steps[i].handle && steps[i].enabled) {
        deciding = std::min(deciding, i);
        continue;
      }
      if (const cudaError_t status = submit_one(i); status != cudaSuccess) return status;
    }
    if (deciding == steps.size()) continue;
    left = true;
    if (const cudaError_t status = submit_one(deciding); status != cudaSuccess) return status;
  }
  exits->clear();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!inner[i]) exits->insert(exits->end(), ends[i].begin(), ends[i].end());
  }
  if (steps.empty()) *exits = entry;
  return cudaSuccess;
}

std::uint32_t count(const std::vector<Step>& steps) {
  std::uint32_t number = std::uint32_t(steps.size());
  for (const Step& step : steps) {
    for (const std::vector<Step>& body : step.bodies) number += count(body);
  }
  return number;
}

} // namespace

// While decisions are waited for, the lock may be lent: `executable` may change or go meanwhile.
static cudaError_t launch_deciding(Call& call, Submission& submission, const GraphExec& executable, Stream& stream) {
  const std::vector<Step> steps = executable.steps;
  const std::vector<Condition> conditions = executable.conditions;
  stream.launching = call.thread.number;
  Operations entry, exits;
  cudaError_t status = submission.assign(conditions, count(steps), &entry);
  if (status == cudaSuccess) status = submission.submit(steps, entry, &exits);
  stream.launching = 0;
  return status;
}

cudaError_t launch_graph(Call& call, cudaGraphExec_t handle, Stream& stream) {
  GraphExec* executable = executable_of(call, handle);
  if (!executable) return cudaErrorInvalidValue;
  if (stream.capture) {
    stream.capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t status = plan_graph_memory(call, *executable); status != cudaSuccess) return status;
  device::Device& device = call.device();
  if (executable->done == 0) {
    executable->done = device.create_event();
  } else if (executable->last_stream != stream.id) {
    device.stream_wait(stream.id, executable->done, call.thread.number);
  }
  const std::uint32_t done = executable->done;
  const std::uint32_t launch = device.begin_graph(executable->id, stream.id, call.thread.number);
  Submission submission(call, stream, launch);
  Operations exits;
  const bool decides = std::any_of(executable->steps.begin(), executable->steps.end(),
                                   [](const Step& step) { return step.handle != 0; });
  const cudaError_t status = decides ? launch_deciding(call, submission, *executable, stream)
                                     : submission.submit(executable->steps, {}, &exits);
  device.end_graph(launch);
  device.record_event(done, stream.id, call.thread.number);
  if (decides) executable = executable_of(call, handle);
  if (executable) executable->last_stream = stream.id;
  return status;
}

} // namespace deadheat::embedded
