#include "replay/engine/tensor_shadows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace deadheat::engine {

namespace {

FloatKind kind_of(TensorType type) {
  switch (type) {
    case TensorType::f16: return FloatKind::f16;
    case TensorType::bf16: return FloatKind::bf16;
    case TensorType::tf32:
    case TensorType::f32: return FloatKind::f32;
    case TensorType::f64: return FloatKind::f64;
    default: return FloatKind::none;
  }
}

using Lanes = std::array<ThreadContext*, tensor_lanes>;

TensorShadowTable* table_of(const ThreadContext* lane) {
  return lane ? reinterpret_cast<TensorShadowTable*>(lane->arg[tensor_table_argument]) : nullptr;
}
RegisterShadow* shadow_at(std::uint64_t address) { return reinterpret_cast<RegisterShadow*>(address); }

const std::uint32_t* words_in(const ThreadContext* lane) {
  return reinterpret_cast<const std::uint32_t*>(lane->arg + 3);
}
const std::uint32_t* words_out(const ThreadContext* lane) {
  return reinterpret_cast<const std::uint32_t*>(lane->result);
}

// Where an element of a lane lies: its word, and the bit in it.
struct At {
  unsigned word, bit;
};
At place_of(unsigned width, unsigned element) { return {element * width / 32, element * width % 32}; }

std::uint64_t bits_at(const std::uint32_t* words, At at, unsigned width) {
  const std::uint64_t word = words[at.word];
  if (width == 64) return word | std::uint64_t(words[at.word + 1]) << 32;
  return word >> at.bit & (width == 32 ? 0xffffffffu : (1u << width) - 1);
}

struct Matrix {
  std::vector<Shadow> shadows;
  std::vector<double> real; // what they are the shadows of
};

// A matrix of shadows from the fragments that begin at word `first` of each lane.
Matrix gather(const TensorOp& op, char matrix, FloatKind kind, const Lanes& lanes, unsigned first, bool& restarted) {
  const std::vector<std::uint32_t> places = fragment_places(op, matrix);
  const unsigned each = unsigned(places.size()) / tensor_lanes, width = width_of(kind);
  Matrix all;
  all.shadows.resize(places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < each; ++e) {
      Shadow& s = all.shadows[places[lane * each + e]];
      s = Shadow::of(kind, 0); // of lanes that take no part
      const TensorShadowTable* table = table_of(lanes[lane]);
      if (!table) continue;
      At at = place_of(width, e);
      const std::uint64_t bits = bits_at(words_in(lanes[lane]) + first, at, width);
      const std::uint64_t reg = table->in[first + at.word];
      s = reg ? read_lane(shadow_at(reg), width == 16 ? words_in(lanes[lane])[first + at.word] : bits, at.bit, kind,
                          restarted)
              : Shadow::of(kind, bits);
    }
  for (const Shadow& shadow : all.shadows) all.real.push_back(widened(shadow.kind, shadow.bits));
  return all;
}

// d = a * b + c of one element: k of each, from a_at and b_at on.
Shadow sum_of_products(const Matrix& a, unsigned a_at, const Matrix& b, unsigned b_at, unsigned k, const Shadow& c,
                       FloatKind kind, std::uint64_t bits, std::uint64_t where) {
  Shadow d;
  d.kind = kind;
  d.bits = bits;
  double wanted = widened(c.kind, c.bits);
  d.value = c.value, d.magnitude = c.magnitude, d.roundings = c.roundings, d.cuts = c.cuts, d.sum = c.sum;
  std::vector<std::pair<std::uint64_t, double>> losses;
  auto lose = [&](std::uint64_t at, double loss) {
    if (loss == 0) return;
    for (auto& [place, amount] : losses)
      if (place == at) {
        amount += loss;
        return;
      }
    losses.push_back({at, loss});
  };
  lose(c.where, c.lost);
  for (unsigned n = 0; n < k; ++n) {
    const Shadow &x = a.shadows[a_at + n], &y = b.shadows[b_at + n];
    wanted = std::fma(a.real[a_at + n], b.real[b_at + n], wanted);
    d.value = std::fma(x.value, y.value, d.value);
    d.magnitude += x.magnitude * y.magnitude;
    d.roundings = std::max({d.roundings, x.roundings, y.roundings});
    d.cuts = std::max({d.cuts, x.cuts, y.cuts});
    if (x.lost != 0) lose(x.where, x.lost * b.real[b_at + n]);
    if (y.lost != 0) lose(y.where, y.lost * a.real[a_at + n]);
  }
  const double got = widened(kind, bits);
  double own = got - wanted;
  if (!std::isfinite(own)) own = std::isfinite(wanted) ? std::numeric_limits<double>::infinity() : 0;
  // Of a float sum each product is cut off a quarter of an ulp below it, and then the sum (tensor_sums.h).
  if (own != 0 && kind == FloatKind::f32)
    d.cuts += 1 + k / 4;
  else if (own != 0)
    ++d.roundings;
  lose(where, own);
  for (const auto& [place, loss] : losses) {
    const double amount = std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
    if (std::fabs(amount) > std::fabs(d.lost)) d.where = place, d.lost = amount;
  }
  return d;
}

void put(TensorShadowTable& table, At at, FloatKind kind, const Shadow& s) {
  RegisterShadow* to = shadow_at(table.out[at.word]);
  if (to && kind != FloatKind::none) to->lane[at.bit ? 1 : 0] = s;
}

void multiply(const TensorOp& op, const Lanes& lanes, std::uint64_t where, Shadows& shadows) {
  const FloatKind a_kind = kind_of(op.a), b_kind = kind_of(op.b), c_kind = kind_of(op.c), d_kind = kind_of(op.d);
  const std::vector<std::uint32_t> places = fragment_places(op, 'd');
  if (places.empty() || op.sparse || a_kind == FloatKind::none || b_kind == FloatKind::none ||
      d_kind == FloatKind::none)
    return;
  bool restarted = false;
  const unsigned a_words = fragment_words(op, 'a'), b_words = fragment_words(op, 'b');
  const Matrix a = gather(op, 'a', a_kind, lanes, 0, restarted), b = gather(op, 'b', b_kind, lanes, a_words, restarted),
               c = gather(op, 'c', c_kind, lanes, a_words + b_words, restarted);
  if (restarted) shadows.restart();
  const unsigned each = unsigned(places.size()) / tensor_lanes, width = width_of(d_kind);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
    TensorShadowTable* table = table_of(lanes[lane]);
    for (unsigned e = 0; table && e < each; ++e) {
      const unsigned row = places[lane * each + e] / op.n, column = places[lane * each + e] % op.n;
      const At at = place_of(width, e);
      ++shadows.steps;
      put(*table, at, d_kind,
          sum_of_products(a, row * op.k, b, column * op.k, op.k, c.shadows[row * op.n + column], d_kind,
                          bits_at(words_out(lanes[lane]), at, width), where));
    }
  }
}

// Between pieces of lines, or rows, and fragments: words go as they are. Which, the instruction itself says when it is
// given numbers in place of values.
void move_words(const TensorOp& op, const Lanes& lanes) {
  const TensorType type = op.kind == TensorKind::load_a    ? op.a
                          : op.kind == TensorKind::load_b  ? op.b
                          : op.kind == TensorKind::load_c  ? op.c
                          : op.kind == TensorKind::store_d ? op.d
                                                           : TensorType::f16;
  const bool rows =
      op.kind == TensorKind::ldmatrix || op.kind == TensorKind::stmatrix || op.kind == TensorKind::movmatrix;
  if (op.rows != RowFormat::b16) return; // of integers
  const unsigned width = rows ? 16 : tensor_bits(type);
  if (width != 16 && width != 32 && width != 64) return;
  constexpr unsigned words = 16;
  const unsigned each = words * 32 / width;
  WarpWords numbers{}, moved{};
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < each; ++e) {
      const At at = place_of(width, e);
      numbers[lane][at.word] |= (lane * each + e + 1) << at.bit;
    }
  run_tensor(op, numbers, moved);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
    TensorShadowTable* to = table_of(lanes[lane]);
    for (unsigned e = 0; to && e < each; ++e) {
      const At at = place_of(width, e);
      const std::uint64_t number = bits_at(moved[lane].data(), at, width);
      if (!number || number > std::uint64_t(tensor_lanes) * each) continue;
      const unsigned from = unsigned(number - 1) / each;
      const At source = place_of(width, unsigned(number - 1) % each);
      const TensorShadowTable* table = table_of(lanes[from]);
      RegisterShadow* reg = shadow_at(to->out[at.word]);
      if (!table || !reg || !table->in[source.word]) continue;
      const Shadow& s = shadow_at(table->in[source.word])->lane[source.bit ? 1 : 0];
      if (width_of(s.kind) != width) continue;
      if (s.bits == bits_at(words_out(lanes[lane]), at, width)) reg->lane[at.bit ? 1 : 0] = s;
    }
  }
}

} // namespace

void run_tensor_shadows(std::uint64_t code, const Lanes& lanes) {
  const auto first = std::find_if(lanes.begin(), lanes.end(), [](const ThreadContext* t) { return t != nullptr; });
  if (first == lanes.end() || !table_of(*first)) return;
  const LaunchContext& launch = *(*first)->block->launch;
  if (!launch.exec->shadows) return;
  const TensorOp op = TensorOp::from(code);
  // Sources are read before any register is overwritten: results may be the same ones.
  std::vector<RegisterShadow> kept;
  std::vector<std::uint64_t*> slots;
  kept.reserve(tensor_lanes * max_tensor_words);
  for (ThreadContext* lane : lanes)
    if (TensorShadowTable* table = table_of(lane))
      for (std::uint64_t& in : table->in)
        if (in) {
          kept.push_back(*shadow_at(in));
          in = reinterpret_cast<std::uint64_t>(&kept.back());
          slots.push_back(&in);
        }
  for (ThreadContext* lane : lanes)
    if (TensorShadowTable* table = table_of(lane))
      for (const std::uint64_t out : table->out)
        if (out) *shadow_at(out) = {};
  if (op.kind == TensorKind::mma || op.kind == TensorKind::wmma)
    multiply(op, lanes, Shadows::place(launch.module, table_of(*first)->where), *launch.exec->shadows);
  else
    move_words(op, lanes);
  for (std::uint64_t* slot : slots) *slot = 0; // what they named is gone
}

} // namespace deadheat::engine
