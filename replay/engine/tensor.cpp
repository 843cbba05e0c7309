#include "replay/engine/tensor.h"

#include <vector>

#include "replay/engine/packed_fields.h"
#include "replay/engine/tensor_metadata.h"
#include "replay/engine/tensor_sums.h"

namespace deadheat::engine {

namespace {

// Fields of a description in its code, lowest first. 61 bits in all.
template <typename Op, typename F>
void each_field(Op& op, F&& f) {
  f(op.kind, 4);
  f(op.m, 6);
  f(op.n, 6);
  f(op.k, 9);
  f(op.a, 4);
  f(op.b, 4);
  f(op.c, 4);
  f(op.d, 4);
  f(op.a_col, 1);
  f(op.b_col, 1);
  f(op.col, 1);
  f(op.satfinite, 1);
  f(op.bit_and, 1);
  f(op.trans, 1);
  f(op.rounding, 3);
  f(op.count, 3);
  f(op.sparse, 1);
  f(op.selector, 2);
  f(op.rows, 2);
}

// One fragment: how its elements lie in the matrix. "Outer" counts rows of a, columns of b and rows of c and d;
// "inner" counts k, and columns of c and d.
struct Fragment {
  TensorType type = TensorType::f16;
  unsigned outer = 0, inner = 0;  // the matrix's extents
  unsigned per_lane = 1;          // elements of a lane in an atom
  bool pairs = true;              // atoms of 16 rows before the next columns; else columns before rows
  bool swapped = false;           // c and d of m8n32k16: the transposed product is computed
  unsigned words = 0;             // of a lane

  unsigned atoms_outer() const { return outer / 8; }
  unsigned atoms_inner() const { return inner / (4 * per_lane); }
  unsigned elements() const { return atoms_outer() * atoms_inner() * per_lane; }  // of a lane, without copies

  // Index of the element in the matrix by outer, then inner.
  unsigned position(unsigned lane, unsigned element) const {
    unsigned atom = element / per_lane % (atoms_outer() * atoms_inner()), row, column;
    if (pairs) {
      unsigned high = atoms_outer() > 1 ? 2 : 1, columns = atoms_inner();
      row = atom / (high * columns) * high + atom % high;
      column = atom / high % columns;
    } else {
      row = atom / atoms_inner();
      column = atom % atoms_inner();
    }
    unsigned o = row * 8 + lane / 4, i = column * 4 * per_lane + lane % 4 * per_lane + element % per_lane;
    return swapped ? i * outer + o : o * inner + i;
  }
};

Fragment fragment_of(const TensorOp& op, char matrix) {
  Fragment f;
  bool product = matrix == 'c' || matrix == 'd';
  f.type = matrix == 'a' ? op.a : matrix == 'b' ? op.b : matrix == 'c' ? op.c : op.d;
  unsigned bits = tensor_bits(f.type);
  f.outer = matrix == 'b' ? op.n : op.m;
  f.inner = product ? op.n : op.sparse && matrix == 'a' ? op.k / 2u : op.k;
  f.per_lane = product ? 2 : bits >= 32 ? 1 : 32 / bits;
  bool wide = op.m == 8 && op.n == 32;  // b takes a's part
  f.pairs = product || (matrix == 'a') != wide;
  if (product && wide) {
    f.swapped = true;
    f.outer = op.n;
    f.inner = op.m;
  }
  f.words = f.elements() * bits / 32;
  bool copies = op.kind != TensorKind::mma && f.type == TensorType::f16 && !product;
  if (copies) f.words = 8;
  return f;
}

// mma.m8n8k4 of f16: four products, each of the lanes l, l + 4·q with q = lane / 4 % 4 equal (9.7.14.5.1).
struct QuadPair {
  unsigned lane, element;
};
bool is_volta(const TensorOp& op) { return op.kind == TensorKind::mma && op.m == 8 && op.a == TensorType::f16; }

QuadPair volta_factor(bool by_lines, unsigned line, unsigned k) {
  // Lanes 0 to 3 have lines 0 to 3, or k; lanes 16 to 19 the other lines.
  unsigned upper = line / 4 * 16;
  return by_lines ? QuadPair{upper + line % 4, k} : QuadPair{upper + k, line % 4};
}
QuadPair volta_sum_at(TensorType type, unsigned row, unsigned column) {
  unsigned upper = row / 4 * 16, r = row % 4;
  if (type == TensorType::f16) return {upper + r, column};
  return {upper + (r & 1) + (column & 2), (column & 4) + (r & 2) + (column & 1)};
}

std::uint64_t get(const std::uint32_t* words, unsigned bits, unsigned element) {
  if (bits == 64) return words[2 * element] | std::uint64_t(words[2 * element + 1]) << 32;
  unsigned at = element * bits;
  std::uint32_t w = words[at / 32] >> at % 32;
  return bits == 32 ? w : w & ((1u << bits) - 1);
}

void put(std::uint32_t* words, unsigned bits, unsigned element, std::uint64_t value) {
  if (bits == 64) {
    words[2 * element] = std::uint32_t(value);
    words[2 * element + 1] = std::uint32_t(value >> 32);
    return;
  }
  unsigned at = element * bits;
  std::uint32_t mask = bits == 32 ? ~0u : ((1u << bits) - 1) << at % 32;
  words[at / 32] = (words[at / 32] & ~mask) | (std::uint32_t(value) << at % 32 & mask);
}

// A matrix from the fragments that begin at word `at` of each lane; and back.
std::vector<std::uint64_t> gather(const Fragment& f, const WarpWords& warp, unsigned at) {
  std::vector<std::uint64_t> matrix(f.outer * f.inner);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < f.elements(); ++e)
      matrix[f.position(lane, e)] = get(&warp[lane][at], tensor_bits(f.type), e);
  return matrix;
}

void scatter(const Fragment& f, const std::vector<std::uint64_t>& matrix, WarpWords& warp) {
  unsigned bits = tensor_bits(f.type);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < f.words * 32 / bits; ++e) put(warp[lane].data(), bits, e, matrix[f.position(lane, e)]);
}

void run_volta(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  unsigned c_bits = tensor_bits(op.c), d_bits = tensor_bits(op.d);
  for (unsigned quad = 0; quad < 16; quad += 4) {
    std::uint64_t a[32], b[32], c[64], d[64];
    for (unsigned line = 0; line < 8; ++line)
      for (unsigned k = 0; k < 4; ++k) {
        QuadPair x = volta_factor(!op.a_col, line, k), y = volta_factor(op.b_col, line, k);
        a[line * 4 + k] = get(&in[quad + x.lane][0], 16, x.element);
        b[line * 4 + k] = get(&in[quad + y.lane][2], 16, y.element);
      }
    for (unsigned n = 0; n < 64; ++n) {
      QuadPair z = volta_sum_at(op.c, n / 8, n % 8);
      c[n] = get(&in[quad + z.lane][4], c_bits, z.element);
    }
    multiply_matrices(op, a, b, c, d);
    for (unsigned n = 0; n < 64; ++n) {
      QuadPair z = volta_sum_at(op.d, n / 8, n % 8);
      put(out[quad + z.lane].data(), d_bits, z.element, d[n]);
    }
  }
}

// Row by row a product of the stored elements of a and of those of b that they meet.
void run_sparse(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  Fragment a = fragment_of(op, 'a'), b = fragment_of(op, 'b'), c = fragment_of(op, 'c'), d = fragment_of(op, 'd');
  std::vector<std::uint64_t> x = gather(a, in, 0), y = gather(b, in, a.words), z = gather(c, in, a.words + b.words),
                             product(op.m * op.n);
  std::array<std::uint32_t, tensor_lanes> words;
  for (unsigned lane = 0; lane < tensor_lanes; ++lane) words[lane] = in[lane][a.words + b.words + c.words];
  const Metadata metadata(op.a, op.k, op.selector, words);
  const unsigned stored = op.k / 2u;
  TensorOp one = op;
  one.m = 1;
  one.k = std::uint16_t(stored);
  std::vector<std::uint64_t> met(op.n * stored);
  for (unsigned row = 0; row < op.m; ++row) {
    for (unsigned n = 0; n < stored; ++n) {
      const unsigned k = metadata.column(row, n);
      for (unsigned column = 0; column < op.n; ++column) met[column * stored + n] = y[column * op.k + k];
    }
    multiply_matrices(one, &x[row * stored], met.data(), &z[row * op.n], &product[row * op.n]);
  }
  scatter(d, product, out);
}

void run_product(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  if (is_volta(op)) return run_volta(op, in, out);
  if (op.sparse) return run_sparse(op, in, out);
  Fragment a = fragment_of(op, 'a'), b = fragment_of(op, 'b'), c = fragment_of(op, 'c'), d = fragment_of(op, 'd');
  std::vector<std::uint64_t> x = gather(a, in, 0), y = gather(b, in, a.words), z = gather(c, in, a.words + b.words),
                             product(op.m * op.n);
  multiply_matrices(op, x.data(), y.data(), z.data(), product.data());
  scatter(d, product, out);
}

char loaded(const TensorOp& op) {
  switch (op.kind) {
    case TensorKind::load_a: return 'a';
    case TensorKind::load_b: return 'b';
    case TensorKind::load_c: return 'c';
    default: return 'd';
  }
}

// Between pieces of lines and fragments.
void run_lines(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  char matrix = loaded(op);
  Fragment f = fragment_of(op, matrix);
  MatrixLines lines = matrix_lines(op);
  unsigned bits = tensor_bits(f.type), per_piece = lines.piece_bytes * 8 / bits;
  // Lines along k of a and b, and along the columns of c and d, are lines along "inner".
  bool along_inner = matrix == 'b' ? op.col : !op.col;
  unsigned rows = matrix == 'b' ? op.n : op.m, columns = matrix == 'a' || matrix == 'b' ? op.k : op.n;
  auto index = [&](unsigned lane, unsigned e) {
    unsigned n = lane * per_piece + e; // by lines
    return along_inner ? n : n % rows * columns + n / rows;
  };
  if (op.kind == TensorKind::store_d) {
    std::vector<std::uint64_t> m = gather(f, in, 0);
    for (unsigned lane = 0; lane < tensor_lanes; ++lane)
      for (unsigned e = 0; e < per_piece; ++e) put(out[lane].data(), bits, e, m[index(lane, e)]);
    return;
  }
  std::vector<std::uint64_t> m(rows * columns);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < per_piece; ++e) m[index(lane, e)] = get(in[lane].data(), bits, e);
  scatter(f, m, out);
}

// Matrices of bytes: rows of 16, of which a lane has 4 neighbours (ldmatrix), or 2 (stmatrix), and then those of the
// row 8 below. They are transposed but for ldmatrix.m8n16. Bytes made from 6 bits have them below, from 4 bits in the
// middle.
void run_byte_rows(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  const unsigned width = op.rows == RowFormat::b4 ? 4 : op.rows == RowFormat::b6 ? 6 : 8; // in memory
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned m = 0; m < op.count; ++m)
      for (unsigned e = 0; e < 4; ++e) {
        if (op.kind == TensorKind::stmatrix) {
          put(out[8 * m + lane % 4 * 2 + e % 2].data(), 8, lane / 4 + e / 2 * 8, get(&in[lane][m], 8, e));
          continue;
        }
        // m16n16 makes two words of each matrix.
        unsigned row = lane / 4, column = lane % 4 * 4 + e, first = 8 * m;
        if (op.trans) {
          first = m / 2 * 16;
          column = lane / 4 + m % 2 * 8;
          row = lane % 4 * 4 + e;
        }
        const std::uint32_t* words = in[first + row].data();
        const unsigned at = column * width;
        const std::uint64_t wide = words[at / 32] | std::uint64_t(words[at / 32 + 1]) << 32;
        const std::uint64_t value = (wide >> at % 32 & ((1u << width) - 1)) << (width == 4 ? 2 : 0);
        put(&out[lane][m], 8, e, value);
      }
}

// 8×8 matrices of 16 bits: lane l has elements 2·(l % 4) and the next of row l / 4; row r of the m-th matrix is what
// lane 8·m + r gives the address of (9.7.14.5.15).
void run_rows(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  if (op.rows != RowFormat::b16) return run_byte_rows(op, in, out);
  bool store = op.kind == TensorKind::stmatrix, move = op.kind == TensorKind::movmatrix;
  for (unsigned m = 0; m < (move ? 1 : op.count); ++m)
    for (unsigned lane = 0; lane < tensor_lanes; ++lane)
      for (unsigned e = 0; e < 2; ++e) {
        unsigned row = lane / 4, column = lane % 4 * 2 + e;
        if (op.trans) std::swap(row, column);
        if (move)
          put(out[lane].data(), 16, e, get(in[row * 4 + column / 2].data(), 16, column % 2));
        else if (store)
          put(out[8 * m + row].data(), 16, column, get(&in[lane][m], 16, e));
        else
          put(&out[lane][m], 16, e, get(in[8 * m + row].data(), 16, column));
      }
}

} // namespace

unsigned tensor_bits(TensorType type) {
  switch (type) {
    case TensorType::f16:
    case TensorType::bf16: return 16;
    case TensorType::f64: return 64;
    case TensorType::e4m3:
    case TensorType::e5m2:
    case TensorType::s8:
    case TensorType::u8: return 8;
    case TensorType::s4:
    case TensorType::u4: return 4;
    case TensorType::b1: return 1;
    default: return 32;
  }
}

std::uint64_t TensorOp::code() const {
  return pack_fields([this](auto&& f) { each_field(*this, f); });
}

TensorOp TensorOp::from(std::uint64_t code) {
  TensorOp op;
  unpack_fields(code, [&](auto&& f) { each_field(op, f); });
  return op;
}

unsigned fragment_words(const TensorOp& op, char matrix) {
  if (op.kind == TensorKind::ldmatrix || op.kind == TensorKind::stmatrix) return op.count;
  if (op.kind == TensorKind::movmatrix) return 1;
  if (is_volta(op)) return matrix == 'a' || matrix == 'b' ? 2 : tensor_bits(matrix == 'c' ? op.c : op.d) / 4;
  return fragment_of(op, matrix).words;
}

std::vector<std::uint32_t> fragment_places(const TensorOp& op, char matrix) {
  std::vector<std::uint32_t> places;
  if (is_volta(op)) return places;
  const Fragment f = fragment_of(op, matrix);
  for (unsigned lane = 0; lane < tensor_lanes; ++lane)
    for (unsigned e = 0; e < f.elements(); ++e) places.push_back(f.position(lane, e));
  return places;
}

MatrixLines matrix_lines(const TensorOp& op) {
  char matrix = loaded(op);
  Fragment f = fragment_of(op, matrix);
  unsigned rows = matrix == 'b' ? op.k : op.m, columns = matrix == 'a' ? op.k : op.n, bits = tensor_bits(f.type);
  return {(op.col ? rows : columns) * bits / 8, rows * columns * bits / 8 / tensor_lanes, bits};
}

void run_tensor(const TensorOp& op, const WarpWords& in, WarpWords& out) {
  switch (op.kind) {
    case TensorKind::mma:
    case TensorKind::wmma: return run_product(op, in, out);
    case TensorKind::ldmatrix:
    case TensorKind::stmatrix:
    case TensorKind::movmatrix: return run_rows(op, in, out);
    default: return run_lines(op, in, out);
  }
}

} // namespace deadheat::engine
