#include "replay/hardware/exchange.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace deadheat::hardware {

using nlohmann::json;

namespace {

Error damaged(const std::string& path) { return Error{"cannot read what the worker wrote", path}; }

template <typename T>
void put(std::ostream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}
template <typename T>
bool get(std::istream& in, T& value) {
  return bool(in.read(reinterpret_cast<char*>(&value), sizeof value));
}

} // namespace

Expected<void> write_request(const std::string& directory, const WorkRequest& request) {
  json kinds = json::array();
  for (Kind kind : request.kinds) kinds.push_back(int(kind));
  std::ofstream out(directory + "/request.json");
  out << json{{"driver", request.driver}, {"kinds", kinds}, {"begin", request.begin}, {"end", request.end}};
  out.flush();
  if (!out) return Error{"cannot write", directory + "/request.json"};
  return {};
}

Expected<WorkRequest> read_request(const std::string& directory) {
  const std::string path = directory + "/request.json";
  try {
    std::ifstream in(path);
    json from = json::parse(in);
    WorkRequest request;
    request.driver = from.at("driver");
    request.begin = from.at("begin");
    request.end = from.at("end");
    for (int kind : from.at("kinds")) {
      if (kind < 0 || kind > int(Kind::delayed)) return damaged(path);
      request.kinds.push_back(Kind(kind));
    }
    if (request.kinds.empty()) return damaged(path);
    return request;
  } catch (const json::exception&) {
    return damaged(path);
  }
}

Expected<void> append_line(const std::string& directory, const RunLine& line) {
  json to;
  if (!line.device.empty()) to["device"] = line.device;
  if (!line.note.empty()) to["note"] = line.note;
  if (!line.error.empty()) to["error"] = line.error;
  if (line.is_run) {
    to["run"] = {{"number", line.number},      {"kind", int(line.kind)},  {"had", int(line.had)},
                 {"reached", line.reached},    {"gave_up", line.gave_up}, {"digest", line.digest},
                 {"ending", int(line.ending)}, {"text", line.ending_text}};
  }
  std::ofstream out(directory + "/runs", std::ios::app);
  out << to.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  out.flush();
  if (!out) return Error{"cannot write", directory + "/runs"};
  return {};
}

std::vector<RunLine> read_lines(const std::string& directory) {
  std::vector<RunLine> lines;
  std::ifstream in(directory + "/runs");
  for (std::string text; std::getline(in, text) && !in.eof();) {
    try {
      json from = json::parse(text);
      RunLine line;
      line.device = from.value("device", "");
      line.note = from.value("note", "");
      line.error = from.value("error", "");
      if (from.contains("run")) {
        const json& run = from.at("run");
        line.is_run = true;
        line.number = run.at("number");
        line.kind = Kind(run.at("kind").get<int>());
        line.had = Order(run.at("had").get<int>());
        line.reached = run.at("reached");
        line.gave_up = run.at("gave_up");
        line.digest = run.at("digest");
        line.ending = search::Ending(run.at("ending").get<int>());
        line.ending_text = run.at("text");
      }
      lines.push_back(std::move(line));
    } catch (const json::exception&) {
      break;
    }
  }
  return lines;
}

Expected<void> keep_outputs(const std::string& directory, const std::string& digest, const search::Outputs& outputs) {
  const std::string path = directory + "/" + digest;
  if (std::filesystem::exists(path)) return {};
  std::ofstream out(path, std::ios::binary);
  put(out, std::uint8_t(outputs.ending));
  put(out, std::uint64_t(outputs.ending_text.size()));
  out << outputs.ending_text;
  put(out, std::uint64_t(outputs.outputs.size()));
  for (const search::Output& output : outputs.outputs) {
    put(out, output.operation);
    put(out, output.address);
    put(out, std::uint64_t(output.bytes.size()));
    out.write(reinterpret_cast<const char*>(output.bytes.data()), std::streamsize(output.bytes.size()));
  }
  out.flush();
  if (!out) return Error{"cannot write", path};
  return {};
}

Expected<search::Outputs> kept_outputs(const std::string& directory, const std::string& digest) {
  const std::string path = directory + "/" + digest;
  std::error_code error;
  const std::uint64_t whole = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  search::Outputs outputs;
  std::uint8_t ending = 0;
  std::uint64_t size = 0, count = 0;
  if (error || !get(in, ending) || !get(in, size) || ending > std::uint8_t(search::Ending::hang) || size > whole)
    return damaged(path);
  outputs.ending = search::Ending(ending);
  outputs.ending_text.resize(size);
  if (!in.read(outputs.ending_text.data(), std::streamsize(size)) || !get(in, count)) return damaged(path);
  for (std::uint64_t n = 0; n < count; ++n) {
    search::Output output;
    if (!get(in, output.operation) || !get(in, output.address) || !get(in, size) || size > whole) return damaged(path);
    output.bytes.resize(size);
    if (!in.read(reinterpret_cast<char*>(output.bytes.data()), std::streamsize(size))) return damaged(path);
    outputs.outputs.push_back(std::move(output));
  }
  return outputs;
}

} // namespace deadheat::hardware
