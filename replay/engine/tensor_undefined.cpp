#include "replay/engine/tensor_undefined.h"

#include <algorithm>
#include <vector>

namespace deadheat::engine {

namespace {

TensorUndefined& table_of(const ThreadContext& lane) {
  return *reinterpret_cast<TensorUndefined*>(lane.arg[tensor_undefined_argument]);
}

bool any_of(const std::uint32_t* words, unsigned count) {
  return std::any_of(words, words + count, [](std::uint32_t w) { return w != 0; });
}

// Whether something of the element is undefined. The lower bits of tf32 are ignored.
bool is_open(const std::uint32_t* words, TensorType type, unsigned element) {
  const unsigned width = tensor_bits(type), at = element * width;
  if (width == 64) return words[2 * element] | words[2 * element + 1];
  const std::uint32_t mask = width == 32 ? (type == TensorType::tf32 ? ~0x1fffu : ~0u) : (1u << width) - 1;
  return words[at / 32] >> at % 32 & mask;
}

// By row of a, or column of b: whether it holds an undefined element. Those of a sparse matrix lie closer.
std::vector<bool> open_lines(const TensorOp& op, char matrix, const WarpWords& in, unsigned first) {
  const TensorType type = matrix == 'a' ? op.a : op.b;
  const unsigned length = op.sparse && matrix == 'a' ? op.k / 2u : op.k;
  const std::vector<std::uint32_t> places = fragment_places(op, matrix);
  const unsigned each = unsigned(places.size()) / tensor_lanes;
  std::vector<bool> open(matrix == 'a' ? op.m : op.n, false);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < each; ++e)
      if (is_open(&in[lane][first], type, e)) open[places[lane * each + e] / length] = true;
  return open;
}

void multiply(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  const std::vector<std::uint32_t> c_places = fragment_places(op, 'c'), d_places = fragment_places(op, 'd');
  if (d_places.empty()) return;
  const unsigned a_words = fragment_words(op, 'a'), b_words = fragment_words(op, 'b');
  const std::vector<bool> rows = open_lines(op, 'a', in, 0);
  std::vector<bool> columns(op.n, false), sums(op.m * op.n, false);
  if (!op.sparse) columns = open_lines(op, 'b', in, a_words);
  const unsigned each = unsigned(d_places.size()) / tensor_lanes;
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < each; ++e)
      if (is_open(&in[lane][a_words + b_words], op.c, e)) sums[c_places[lane * each + e]] = true;
  const unsigned width = tensor_bits(op.d);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < each; ++e) {
      const unsigned place = d_places[lane * each + e];
      if (!sums[place] && !rows[place / op.n] && !columns[place % op.n]) continue;
      if (width == 64)
        out[lane][2 * e] = out[lane][2 * e + 1] = ~0u;
      else
        out[lane][e * width / 32] |= (width == 32 ? ~0u : (1u << width) - 1) << e * width % 32;
    }
}

} // namespace

void run_tensor_undefined(std::uint64_t code, const std::array<ThreadContext*, tensor_lanes>& lanes) {
  WarpWords in{}, out{};
  const ThreadContext* origin = nullptr;
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
    if (!lanes[lane]) continue;
    const TensorUndefined& table = table_of(*lanes[lane]);
    std::copy(std::begin(table.in), std::end(table.in), in[lane].begin());
    if (!origin && any_of(table.in, max_tensor_words)) origin = lanes[lane];
  }
  if (!origin) return; // the tables begin as zeros
  const TensorOp op = TensorOp::from(code);
  if (op.kind == TensorKind::mma || op.kind == TensorKind::wmma)
    multiply(op, in, out);
  else
    run_tensor(op, in, out); // moves bits
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
    if (!lanes[lane]) continue;
    ThreadContext& t = *lanes[lane];
    TensorUndefined& table = table_of(t);
    std::copy(out[lane].begin(), out[lane].begin() + max_tensor_results, table.out);
    if (any_of(table.in, max_tensor_words) || !any_of(table.out, max_tensor_results)) continue;
    t.take_undefined(*origin);
  }
}

} // namespace deadheat::engine
