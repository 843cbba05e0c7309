// The first pass forgets: memory that is over.
#include <algorithm>
#include <bit>

#include "analyzer/detect/filter.h"

namespace deadheat::detect {

using order::ThreadKey;

void Filter::forget_sparse(SparseCells& cells, std::uint64_t address, std::uint64_t bytes) {
  if (cells.empty()) return;
  const std::uint64_t step = 1ull << cells.unit_log2(), end = address + bytes;
  const std::uint64_t first = (address + step - 1) / step * step;
  if (bytes / step > 2 * cells.entries()) {
    return cells.forget_if([&](std::uint64_t unit) { return first <= unit && unit + step <= end; });
  }
  for (std::uint64_t unit = first; unit + step <= end; unit += step) {
    if (!cells.may_have_page(unit / page_bytes)) {
      unit = (unit / page_bytes + 1) * page_bytes - step;
      continue;
    }
    if (const SparseCells::Found found = cells.find(unit)) cells.erase(unit, found);
  }
}

void Filter::forget_inactive() {
  std::vector<PageKey> inactive;
  pages_.each_page([&](const ShadowPage& page) {
    if (!share_.has_page(page.key.memory, page.key.number)) inactive.push_back(page.key);
  });
  for (const PageKey& key : inactive) erase(key);
  for (SparseCells* cells : {&words_, &bytes_}) {
    cells->forget_if([&](std::uint64_t address) { return !share_.has_page(0, address / page_bytes); });
  }
  last_key_ = {~0ull, ~0ull};
  pages_.trim();
  collect_segments();
}

void Filter::forget_range(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes, first = address / page_bytes, last = (end + page_bytes - 1) / page_bytes;
  auto forget = [&](ShadowPage& page) {
    const std::uint64_t base = page.key.number * page_bytes;
    pages_.refine(page, 2);
    const std::uint64_t step = 1ull << page.shift, last = std::min(end - base, std::uint64_t(page_bytes));
    for (std::uint64_t i = address > base ? (address - base + step - 1) / step * step : 0; i + step <= last;
         i += step) {
      Group& group = page.groups()[i / group_units >> page.shift];
      const unsigned unit = unsigned(i >> page.shift) % group_units;
      pages_.expand(group)[unit] = Cell{};
      if (group.strong) pages_.strong(group)[unit] = StrongCell{};
    }
  };
  forget_sparse(words_, address, bytes);
  forget_sparse(bytes_, address, bytes);
  for (const std::uint64_t at : {address, end}) // part of a page
    if (at % page_bytes) known_page(0, at);
  runs_.cut(first);
  runs_.cut(last);
  runs_.erase(first, last, [](const GroupEpochs&) {});
  pages_.each_number(first, last, [&](std::uint64_t number) {
    const std::uint64_t base = number * page_bytes;
    if (address <= base && base + page_bytes <= end)
      erase({0, number});
    else
      forget(*pages_.find({0, number}));
  });
}

void Filter::forget_shared(order::OperationIndex operation) {
  epochs_.forget(operation);
  auto found = shared_pages_.find(operation);
  if (found == shared_pages_.end()) return;
  for (const auto& [memory, numbers] : found->second) {
    for (std::uint64_t number : numbers) erase({memory, number});
  }
  shared_pages_.erase(found);
  pages_.trim();
}

void Filter::forget_shared(ThreadKey block) {
  epochs_.forget(block);
  auto found = shared_pages_.find(block.operation());
  if (found == shared_pages_.end()) return;
  auto pages = found->second.find(block.block_bits() + 1);
  if (pages == found->second.end()) return;
  for (std::uint64_t number : pages->second) erase({pages->first, number});
  found->second.erase(pages);
}

} // namespace deadheat::detect
