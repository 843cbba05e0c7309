// Windows of a GPU's run, made into runs of the embedded device: tensor maps in the driver's bytes.
#include "replay/search/window.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tracer/ptx/tensor_map.h"

namespace deadheat::search {
namespace {

constexpr std::uint64_t memory = 0x7f12'3400'0000;
constexpr std::size_t map_at = 64;

ptx::TensorMap tensor() {
  ptx::TensorMap map;
  map.address = memory + 256;
  map.rank = 2;
  map.type = ptx::TensorType::f32;
  map.size = {32, 8};
  map.stride = {4, 128};
  map.box = {8, 8};
  map.step = {1, 1};
  return map;
}

// The driver's encoding is anything, but that the address is in it.
std::vector<std::uint8_t> drivers_bytes() {
  std::vector<std::uint8_t> bytes(ptx::tensor_map_bytes);
  for (std::size_t n = 0; n < bytes.size(); ++n) bytes[n] = std::uint8_t(17 * n + 3);
  const std::uint64_t address = tensor().address;
  std::memcpy(bytes.data(), &address, 8);
  return bytes;
}

std::vector<trace::Record> run(bool explained) {
  std::vector<trace::Record> records;
  trace::Allocate allocation;
  allocation.allocation = 1;
  allocation.kind = trace::Allocate::Kind::device;
  allocation.address = memory;
  allocation.bytes = 4096;
  records.push_back(allocation);
  records.push_back(trace::Window{1, true, {}, {}});
  trace::Launch launch;
  launch.kernel = "k";
  launch.instrumented = true;
  launch.arguments.inlined.resize(map_at);
  std::memcpy(launch.arguments.inlined.data() + 8, &memory, 8);
  const std::vector<std::uint8_t> map = drivers_bytes();
  launch.arguments.inlined.insert(launch.arguments.inlined.end(), map.begin(), map.end());
  launch.arguments.size = launch.arguments.inlined.size();
  trace::Operation operation;
  operation.id = 1;
  operation.stream = 1;
  operation.what = launch;
  records.push_back(operation);
  if (explained) {
    const ptx::TensorMapBytes described = ptx::encoded(tensor());
    records.push_back(trace::TensorMap{map, {described.begin(), described.end()}});
  }
  records.push_back(trace::Window{1, false, {}, {{memory, 4096}}});
  return records;
}

std::vector<std::uint8_t> arguments_of(const MovedRun& run) {
  for (const auto& record : run.commands) {
    const auto* operation = std::get_if<trace::Operation>(record.get());
    const auto* launch = operation ? std::get_if<trace::Launch>(&operation->what) : nullptr;
    if (launch) return launch->arguments.inlined;
  }
  return {};
}

Expected<MovedRun> moved(bool explained) {
  std::vector<trace::Record> records = run(explained);
  std::erase_if(records, [](const trace::Record& record) { return !is_of_windows(record); });
  return from_window(std::move(records),
                     [](const trace::Bytes& bytes) -> Expected<std::vector<std::uint8_t>> { return bytes.inlined; });
}

TEST(WindowsOfTensors, MapsThatTheTraceExplainsAreTheDevicesOwn) {
  const Expected<MovedRun> run = moved(true);
  ASSERT_TRUE(run);
  const std::vector<std::uint8_t> arguments = arguments_of(*run);
  ASSERT_EQ(arguments.size(), map_at + ptx::tensor_map_bytes);
  std::uint64_t here = 0;
  std::memcpy(&here, arguments.data() + 8, 8);
  EXPECT_NE(here, memory);
  const auto map = ptx::decoded(arguments.data() + map_at);
  ASSERT_TRUE(map);
  ptx::TensorMap expected = tensor();
  expected.address = here + 256;
  EXPECT_EQ(*map, expected);
}

TEST(WindowsOfTensors, OthersAreNone) {
  const Expected<MovedRun> run = moved(false);
  ASSERT_TRUE(run);
  const std::vector<std::uint8_t> arguments = arguments_of(*run);
  ASSERT_EQ(arguments.size(), map_at + ptx::tensor_map_bytes);
  EXPECT_FALSE(ptx::decoded(arguments.data() + map_at));
}

} // namespace
} // namespace deadheat::search
