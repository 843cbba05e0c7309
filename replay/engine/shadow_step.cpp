#include "replay/engine/shadow_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "replay/engine/numeric.h"
#include "replay/engine/packed_fields.h"

namespace deadheat::engine {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename Step, typename F>
void each_field(Step& step, F&& f) {
  f(step.op, 6);
  f(step.to, 3);
  f(step.from, 3);
  f(step.lanes, 2);
  f(step.sources, 3);
  f(step.width, 7);
  f(step.at, 7);
  f(step.mixed, 1);
  f(step.saturate, 1);
  f(step.relu, 1);
  f(step.propagate_nan, 1);
  f(step.xorsign, 1);
  f(step.absolute, 1);
  f(step.rounds, 1);
  f(step.directed, 1);
  f(step.crossed, 1);
  f(step.counts, 1);
}

constexpr std::uint64_t ones(unsigned width) {
  return width >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
}

double extremum(const ShadowStep& step, double x, double y) { // PTX ISA 9.7.3.11, 9.7.3.12
  if (std::isnan(x) || std::isnan(y)) {
    if (step.propagate_nan) return std::numeric_limits<double>::quiet_NaN();
    return std::isnan(x) ? y : x;
  }
  if (x == y) return std::signbit(x) == (step.op == ShadowOp::min) ? x : y;
  return (x < y) == (step.op == ShadowOp::min) ? x : y;
}

double copy_sign(double magnitude, bool negative) { return std::copysign(magnitude, negative ? -1.0 : 1.0); }

} // namespace

std::uint64_t ShadowStep::code() const {
  return pack_fields([this](auto&& f) { each_field(*this, f); });
}

ShadowStep ShadowStep::from_code(std::uint64_t code) {
  ShadowStep step;
  unpack_fields(code, [&](auto&& f) { each_field(step, f); });
  return step;
}

double compute(const ShadowStep& step, const double* s) {
  double r = 0;
  switch (step.op) {
    case ShadowOp::add: r = s[0] + s[1]; break;
    case ShadowOp::sub: r = s[0] - s[1]; break;
    case ShadowOp::mul: r = s[0] * s[1]; break;
    case ShadowOp::div: r = s[0] / s[1]; break;
    case ShadowOp::fma: r = std::fma(s[0], s[1], s[2]); break;
    case ShadowOp::min:
    case ShadowOp::max: {
      const bool bare = step.absolute || step.xorsign;
      auto source = [&](unsigned n) { return bare ? std::fabs(s[n]) : s[n]; };
      r = source(0);
      for (unsigned n = 1; n < step.sources; ++n) r = extremum(step, r, source(n));
      if (step.xorsign && !std::isnan(r)) r = copy_sign(r, std::signbit(s[0]) != std::signbit(s[1]));
      break;
    }
    case ShadowOp::neg: r = -s[0]; break;
    case ShadowOp::abs: r = std::fabs(s[0]); break;
    case ShadowOp::copysign: r = std::copysign(s[1], s[0]); break;
    case ShadowOp::rcp: r = 1.0 / s[0]; break;
    case ShadowOp::sqrt: r = std::sqrt(s[0]); break;
    case ShadowOp::rsqrt: r = numeric::rsqrt64(s[0]); break;
    case ShadowOp::ex2: r = numeric::wide_ex2(s[0]); break;
    case ShadowOp::lg2: r = numeric::wide_lg2(s[0]); break;
    case ShadowOp::sin: r = numeric::wide_sine(s[0]); break;
    case ShadowOp::cos: r = numeric::wide_cosine(s[0]); break;
    case ShadowOp::tanh: r = numeric::wide_tanh(s[0]); break;
    default: r = s[0]; break;
  }
  if (step.saturate) r = r > 0 ? std::min(r, 1.0) : 0.0; // NaN too
  if (step.relu && r <= 0) r = 0;
  return r;
}

namespace {

// How far a result goes for a source's going by little: for what it multiplies of the source's magnitude.
double slope(const ShadowStep& step, const double* at, unsigned source) {
  std::array<double, most_shadow_sources> moved;
  std::copy(at, at + step.sources, moved.begin());
  const double by = std::max(std::fabs(at[source]), 0x1p-100) * 0x1p-26;
  moved[source] += by;
  const double r = (compute(step, moved.data()) - compute(step, at)) / by;
  return std::isfinite(r) ? std::fabs(r) : 0;
}

double magnitude_of(const ShadowStep& step, const Shadow* s, const double* values, double result) {
  switch (step.op) {
    case ShadowOp::add:
    case ShadowOp::sub: return s[0].magnitude + s[1].magnitude;
    case ShadowOp::mul: return s[0].magnitude * s[1].magnitude;
    case ShadowOp::fma: return s[0].magnitude * s[1].magnitude + s[2].magnitude;
    case ShadowOp::neg:
    case ShadowOp::abs:
    case ShadowOp::convert: return s[0].magnitude;
    case ShadowOp::copysign: return s[1].magnitude;
    default: break;
  }
  // Others: what one ulp of a source's magnitude is worth in the result.
  double m = std::fabs(result);
  for (unsigned n = 0; n < step.sources; ++n) m = std::max(m, slope(step, values, n) * s[n].magnitude);
  return m;
}

} // namespace

Shadow combine(const ShadowStep& step, const Shadow* s, std::uint64_t bits, std::uint64_t where) {
  Shadow r;
  r.kind = step.to;
  r.bits = bits & ones(width_of(step.to));
  std::array<double, most_shadow_sources> real{}, doubles{};
  for (unsigned n = 0; n < step.sources; ++n) {
    real[n] = widened(s[n].kind, s[n].bits);
    doubles[n] = s[n].value;
    r.roundings = std::max(r.roundings, s[n].roundings);
    r.cuts = std::max(r.cuts, s[n].cuts);
  }
  const double got = widened(r.kind, r.bits), wanted = compute(step, real.data());
  // Rounded to an integer by adding a constant, and the constant taken away again: decisions.
  if (step.rounds && std::isfinite(got)) {
    const bool rounds = ulp_of(r.kind, got) >= 1;
    const bool back = got == wanted && std::equal(real.begin(), real.begin() + step.sources, doubles.begin());
    if (rounds || back) return Shadow::of(r.kind, r.bits);
  }
  r.value = compute(step, doubles.data());
  r.magnitude = std::max(magnitude_of(step, s, doubles.data(), r.value), std::fabs(r.value));
  if (std::isnan(r.magnitude)) r.magnitude = 0;
  // What this instruction lost, and what it hands on of its sources' losses.
  double own = got - wanted;
  if (!std::isfinite(own)) own = std::isfinite(wanted) ? infinity : 0;
  if (got != wanted && !(std::isnan(got) && std::isnan(wanted))) ++(step.directed ? r.cuts : r.roundings);
  std::array<std::pair<std::uint64_t, double>, most_shadow_sources + 1> losses;
  unsigned known = 0;
  auto add = [&](std::uint64_t place, double loss) {
    if (loss == 0) return;
    for (unsigned n = 0; n < known; ++n)
      if (losses[n].first == place) {
        losses[n].second += loss;
        return;
      }
    losses[known++] = {place, loss};
  };
  add(where, own);
  for (unsigned n = 0; n < step.sources; ++n) {
    if (s[n].lost == 0) continue;
    double share = infinity; // of a loss that is no number
    if (std::isfinite(s[n].lost)) {
      std::array<double, most_shadow_sources> other = real;
      other[n] = s[n].value;
      const double ratio = (wanted - compute(step, other.data())) / (real[n] - s[n].value);
      share = std::isfinite(ratio) ? s[n].lost * ratio : 0;
    }
    add(s[n].where, share);
  }
  for (unsigned n = 0; n < known; ++n)
    if (std::fabs(losses[n].second) > std::fabs(r.lost) || std::isnan(losses[n].second)) {
      r.where = losses[n].first;
      r.lost = std::isnan(losses[n].second) ? infinity : losses[n].second;
    }
  // What a sum came from and went through.
  const bool adds = step.op == ShadowOp::add || step.op == ShadowOp::sub || step.op == ShadowOp::fma;
  for (unsigned n = 0; n < step.sources; ++n) {
    if (s[n].sum && (!r.sum || s[n].roundings == r.roundings)) r.sum = s[n].sum;
    const bool addend = adds && (step.op != ShadowOp::fma || n == 2);
    if (!addend && step.op != ShadowOp::convert) continue;
    for (const std::uint64_t origin : s[n].origin) {
      if (!origin || origin == r.origin[0]) continue;
      r.origin[r.origin[0] ? 1 : 0] = origin;
      r.added = s[n].added || addend;
    }
  }
  return r;
}

// ---- moves of bits

namespace {

// A half or all of a register that the result takes whole: with its sign changed, or taken off.
enum class Sign : std::uint8_t { kept, turned, off };
Shadow signed_as(Shadow s, Sign sign, std::uint64_t bits) {
  if (sign == Sign::turned) s.value = -s.value, s.lost = -s.lost;
  if (sign == Sign::off && std::signbit(s.value)) s.value = -s.value, s.lost = -s.lost;
  s.bits = bits & ones(width_of(s.kind));
  return s;
}

class Move {
 public:
  Move(const ShadowStep& step, const ShadowOperand* operands) : step_(step), o_(operands) {}

  RegisterShadow result() {
    switch (step_.op) {
      case ShadowOp::copy: whole(o_[1]); break;
      case ShadowOp::select: whole(o_[3].bits & 1 ? o_[1] : o_[2]); break;
      case ShadowOp::pack: pack(); break;
      case ShadowOp::part: cut(o_[1], step_.at, step_.width, 0); break;
      case ShadowOp::logic_and:
      case ShadowOp::logic_or:
      case ShadowOp::logic_xor: masked(); break;
      case ShadowOp::shift_left:
      case ShadowOp::shift_right: shifted(); break;
      case ShadowOp::permute: permuted(); break;
      default: lost_ = step_.counts; break;
    }
    return r_;
  }
  bool lost() const {
    if (!lost_) return false;
    for (unsigned n = 1; n <= step_.sources; ++n)
      if (any_lane(o_[n].shadow, o_[n].bits)) return true;
    return false;
  }

 private:
  std::uint64_t bits() const { return o_[0].bits; }
  void whole(const ShadowOperand& from) {
    if (!from.shadow) return;
    for (unsigned n = 0; n < 2; ++n) {
      const Shadow& lane = from.shadow->lane[n];
      const unsigned own = lane.kind == FloatKind::none ? 64 : width_of(lane.kind), at = n ? own : 0;
      if (at < 64 && lane.bits == (bits() >> at & ones(own))) r_.lane[n] = lane;
    }
  }
  // `width` bits from bit `at` of a source, to bit `to` of the result.
  void cut(const ShadowOperand& from, unsigned at, unsigned width, unsigned to, Sign sign = Sign::kept) {
    if (!from.shadow) return;
    const Shadow& first = from.shadow->lane[0];
    if (first.kind == FloatKind::none && first.origin[0] && first.bits == from.bits && to == 0 && sign == Sign::kept) {
      r_.lane[0] = first;
      r_.lane[0].origin[0] += at / 8;
      r_.lane[0].bits = bits();
    }
    for (unsigned n = 0; n < 2; ++n) {
      const Shadow& lane = from.shadow->lane[n];
      const unsigned own = width_of(lane.kind), place = n ? own : 0;
      if (lane.kind == FloatKind::none || place < at || place + own > at + width) continue;
      if (lane.bits != (from.bits >> place & ones(own))) continue;
      const unsigned target = place - at + to;
      if (target == 0 || target == own)
        r_.lane[target ? 1 : 0] = signed_as(lane, sign, bits() >> target);
      else
        lost_ = true;
    }
  }
  void pack() {
    for (unsigned n = 0; n < step_.sources; ++n) {
      if (n < 2)
        cut(o_[n + 1], 0, step_.width, n * step_.width);
      else
        lost_ |= any_lane(o_[n + 1].shadow, o_[n + 1].bits);
    }
    if (step_.sources > 2 && lost_) r_ = {};
  }
  // and, or, xor with a mask: halves that are kept, and signs.
  void masked() {
    lost_ = true;
    for (unsigned n = 1; n <= 2; ++n) {
      const ShadowOperand &value = o_[n], &mask = o_[3 - n];
      if (!value.shadow) continue;
      const unsigned width = step_.width;
      bool all = true;
      // All of the register, or its halves and so on: each piece is kept, cleared, or has its sign changed.
      for (unsigned piece = width; piece >= 16; piece /= 2) {
        all = true;
        for (unsigned at = 0; at < width; at += piece) {
          const std::uint64_t m = mask.bits >> at & ones(piece), top = std::uint64_t(1) << (piece - 1);
          const bool is_and = step_.op == ShadowOp::logic_and, is_xor = step_.op == ShadowOp::logic_xor;
          if (m == (is_and ? ones(piece) : 0))
            cut(value, at, piece, at);
          else if (is_and ? m == ones(piece) - top : is_xor && m == top)
            cut_piece(value, at, piece, is_and ? Sign::off : Sign::turned);
          else if (!(is_and && m == 0))
            all = false;
        }
        if (all) break;
      }
      if (all) lost_ = false;
    }
    if (lost_) lost_ = r_.lane[0].kind == FloatKind::none && r_.lane[1].kind == FloatKind::none;
  }
  void cut_piece(const ShadowOperand& value, unsigned at, unsigned piece, Sign sign) { // a lane of exactly this size
    const Shadow& lane = value.shadow->lane[at ? 1 : 0];
    if (width_of(lane.kind) == piece && (at == 0 || at == piece)) cut(value, at, piece, at, sign);
  }
  void shifted() {
    const std::uint64_t by = o_[2].bits;
    if (by == 0) return cut(o_[1], 0, step_.width, 0);
    const bool halves = (by == 16 && step_.width == 32) || (by == 32 && step_.width == 64);
    if (!halves) {
      lost_ = true;
    } else if (step_.op == ShadowOp::shift_left) {
      cut(o_[1], 0, unsigned(by), unsigned(by));
    } else {
      cut(o_[1], unsigned(by), unsigned(by), 0);
    }
  }
  // prmt with whole halves of its sources (PTX ISA 9.7.8.7).
  void permuted() {
    const std::uint64_t selector = o_[3].bits;
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned low = unsigned(selector >> 8 * half & 15), high = unsigned(selector >> (8 * half + 4) & 15);
      if (low > 7 || low % 2 || high != low + 1) {
        lost_ = true;
        continue;
      }
      const ShadowOperand& from = o_[low < 4 ? 1 : 2];
      if ((selector & 0xffff) == (low < 4 ? 0x3210u : 0x7654u)) return whole(from);
      cut(from, low % 4 * 8, 16, half * 16);
    }
  }

  const ShadowStep& step_;
  const ShadowOperand* o_;
  RegisterShadow r_;
  bool lost_ = false;
};

bool is_arithmetic(ShadowOp op) { return op <= ShadowOp::convert; }

// The kind of the n-th source.
FloatKind source_kind(const ShadowStep& step, unsigned n) {
  return step.mixed && n + 1 == step.sources ? step.to : step.from;
}

} // namespace

void shadow_step(Shadows& shadows, const ShadowStep& step, std::uint64_t where, const ShadowOperand* o) {
  if (!o[0].shadow) return;
  ++shadows.steps;
  RegisterShadow r;
  bool restarted = false;
  if (step.op == ShadowOp::from_signed || step.op == ShadowOp::from_unsigned) {
    const unsigned gone = 64 - step.width;
    r.lane[0] = Shadow::of(step.to, o[0].bits & ones(width_of(step.to)));
    r.lane[0].value = step.op == ShadowOp::from_signed ? double(std::int64_t(o[1].bits << gone) >> gone)
                                                       : double(o[1].bits << gone >> gone);
    r.lane[0].magnitude = std::fabs(r.lane[0].value);
    r.lane[0].lost = widened(step.to, r.lane[0].bits) - r.lane[0].value;
    if (r.lane[0].lost != 0) r.lane[0].roundings = 1, r.lane[0].where = where;
  } else if (is_arithmetic(step.op)) {
    const unsigned to_width = width_of(step.to), from_width = width_of(step.from);
    for (unsigned lane = 0; lane < step.lanes; ++lane) {
      std::array<Shadow, most_shadow_sources> s;
      ShadowStep one = step;
      if (step.crossed) {
        one.sources = 1;
        s[0] = read_lane(o[2 - lane].shadow, o[2 - lane].bits, 0, step.from, restarted);
      } else {
        for (unsigned n = 0; n < step.sources; ++n)
          s[n] = read_lane(o[n + 1].shadow, o[n + 1].bits, lane * from_width, source_kind(step, n), restarted);
      }
      r.lane[lane] = combine(one, s.data(), o[0].bits >> (lane * to_width), where);
    }
  } else {
    Move move(step, o);
    r = move.result();
    restarted = move.lost();
  }
  if (restarted) shadows.restart();
  *o[0].shadow = r;
}

} // namespace deadheat::engine
