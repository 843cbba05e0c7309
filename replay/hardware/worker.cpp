// The worker process: plays the runs it is asked for, and writes a line about each.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "replay/hardware/exchange.h"
#include "replay/hardware/player.h"
#include "replay/hardware/waiting.h"

namespace deadheat::hardware {

namespace {

// What kernels print goes to standard output, which is a file here (hardware.cpp): what was added since last time.
std::vector<std::uint8_t> printed(off_t& seen) {
  std::vector<std::uint8_t> text;
  const off_t end = lseek(STDOUT_FILENO, 0, SEEK_END);
  if (end <= seen) return text;
  text.resize(std::size_t(end - seen));
  const ssize_t got = pread(STDOUT_FILENO, text.data(), text.size(), seen);
  text.resize(got > 0 ? std::size_t(got) : 0);
  seen = end;
  return text;
}

Expected<void> work(const std::string& file, const std::string& directory) {
  Expected<WorkRequest> request = read_request(directory);
  if (!request) return request.error();
  Expected<Capsule> capsule = Capsule::open(file);
  if (!capsule) return capsule.error();
  const search::Witness& witness = capsule->witness();

  // Streams must not share queues, or a waiting one holds up others (CUDA C++ Programming Guide, environment
  // variables); code that is loaded when it is first launched would wait for the device.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  Expected<Driver> driver = Driver::open(request->driver);
  if (!driver) return driver.error();
  Plan plan = make_plan(*capsule);
  if (request->kinds == std::vector<Kind>{Kind::delayed}) plan.means = Means::delays;
  Expected<std::unique_ptr<Player>> player = Player::create(*driver, *capsule, plan);
  if (!player) return player.error();

  RunLine device;
  device.device = (*player)->device();
  if (Expected<void> ok = append_line(directory, device); !ok) return ok;
  for (const std::string& text : (*player)->notes()) {
    RunLine note;
    note.note = text;
    if (Expected<void> ok = append_line(directory, note); !ok) return ok;
  }
  off_t seen = 0;
  printed(seen);
  for (std::uint64_t number = request->begin; number < request->end; ++number) {
    RunLine line;
    line.is_run = true;
    line.number = number;
    line.kind = request->kinds[number % request->kinds.size()];
    PlayRequest play;
    if (line.kind == Kind::first_then_second) play.order = Order::first_then_second;
    if (line.kind == Kind::second_then_first) play.order = Order::second_then_first;
    if (line.kind == Kind::delayed) play.delay = longest_delay;
    play.seed = std::uint32_t(number);
    Expected<Played> played = (*player)->run(play);
    if (!played) return played.error();
    if (std::vector<std::uint8_t> text = printed(seen); !text.empty()) {
      auto& outputs = played->outputs.outputs;
      outputs.insert(outputs.begin(), search::Output{0, 0, std::move(text)});
    }
    line.had = played->had;
    line.reached = played->first_reached && played->second_reached;
    line.gave_up = played->gave_up;
    line.digest = played->outputs.digest(witness.last_operation);
    line.ending = played->outputs.ending;
    line.ending_text = played->outputs.ending_text;
    if (Expected<void> ok = keep_outputs(directory, line.digest, played->outputs); !ok) return ok;
    if (Expected<void> ok = append_line(directory, line); !ok) return ok;
    if (played->broken) return {}; // somebody else goes on
  }
  return {};
}

} // namespace

int work_on_gpu(const std::string& witness, const std::string& directory) {
  Expected<void> done = work(witness, directory);
  int status = 0;
  if (!done) {
    RunLine line;
    line.error = done.error().message();
    if (!append_line(directory, line)) status = 2;
  }
  // The driver's own ends with the process: after a fault they would wait for what never comes.
  _exit(status);
}

} // namespace deadheat::hardware
