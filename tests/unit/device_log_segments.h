// Segments of one slot each, with their sites, as tracer/ptx/instrument*.cpp lays them out: what the logs of tests are
// made of.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tracer/device_log/launch_log.h"

namespace deadheat::device_log {

inline constexpr std::uint32_t header = ptx::segment_header_bytes;
inline constexpr std::uint32_t lanes4 = 128, lanes8 = 256; // bytes of an array of 32

struct Segments {
  std::vector<ptx::Segment> segments;
  std::vector<Site> sites;

  // One whose slot has so many bytes. Returns its site, for what is not as usual.
  Site& add(const char* opcode, SiteKind kind, ptx::Slot slot, std::uint32_t bytes = 0) {
    Site site;
    site.id = slot.site = std::uint32_t(sites.size());
    site.kind = kind;
    site.opcode = opcode;
    site.space = kind == SiteKind::access ? Space::global : Space::shared;
    site.ordering = kind == SiteKind::access ? Ordering::relaxed : Ordering::weak;
    site.element_bytes = 4;
    site.wait_only = site.opcode.find("wait") != std::string::npos;
    slot.offset = header;
    ptx::Segment segment;
    segment.bytes = header + bytes;
    segment.ends = kind == SiteKind::exit;
    segment.slots.push_back(slot);
    segments.push_back(segment);
    sites.push_back(site);
    return sites.back();
  }
  Site& add_exit() {
    ptx::Slot slot;
    slot.kind = ptx::Slot::Kind::event;
    return add("exit", SiteKind::exit, slot);
  }
  const ptx::Slot& slot(std::uint32_t number) const { return segments[number].slots[0]; }

  // Of launch 1 with strong accesses; points to this.
  Shape shape(std::uint32_t blocks, std::uint32_t threads) const {
    Shape shape;
    shape.launch = 1;
    shape.blocks = blocks;
    shape.threads = threads;
    shape.strong = true;
    shape.segments = &segments;
    shape.sites = &sites;
    return shape;
  }
};

template <typename T> void put(std::vector<std::uint8_t>& segment, std::uint32_t offset, T value) {
  std::memcpy(segment.data() + offset, &value, sizeof value);
}

} // namespace deadheat::device_log
