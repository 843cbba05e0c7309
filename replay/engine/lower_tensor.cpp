// mma, wmma, ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14): each a rendezvous of the warp, which tensor.h computes.
// What touches memory does so lane by lane, by weak accesses of its own bytes: ldmatrix and stmatrix the row that the
// lane gives the address of, wmma a piece of a line; loads before the rendezvous, stores after it.
#include "replay/engine/lower_tensor.h"

#include <algorithm>

#include "replay/engine/access.h"
#include "replay/engine/lower.h"
#include "replay/engine/lower_warp.h"
#include "replay/engine/numeric.h"
#include "replay/engine/precision.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;

namespace {

constexpr unsigned first_argument = 3;  // behind the operation, the mask and the description

void set_words(Builder& b, unsigned at, llvm::ArrayRef<Value*> words) {  // two a slot
  for (std::size_t n = 0; n < words.size(); ++n)
    b.thread_store(offsetof(ThreadContext, arg) + 8 * first_argument + 4 * (at + n), words[n]);
}

Value* result_word(Builder& b, unsigned n) { return b.thread_load(offsetof(ThreadContext, result) + 4 * n, 32); }

void meet(Builder& b, const TensorOp& op) {
  b.thread_store(offsetof(ThreadContext, arg) + 16, b.constant(64, op.code()));
  rendezvous(b, WarpOp::tensor, b.constant(64, 0xffffffffu));
}

unsigned register_count(const Operand& o) { return o.kind == Operand::Kind::vector ? unsigned(o.elements.size()) : 1; }
const Operand& register_at(const Operand& o, std::size_t n) {
  return o.kind == Operand::Kind::vector ? o.elements[n] : o;
}

// A fragment's words, from registers of 32 or 64 bits.
void read_fragment(Builder& b, const TensorOp& op, char matrix, const Operand& o, unsigned& at) {
  unsigned words = fragment_words(op, matrix);
  unsigned registers = register_count(o), each = registers ? words / registers : 0;
  if ((each != 1 && each != 2) || each * registers != words) return b.refuse("registers of a fragment");
  for (unsigned n = 0; n < registers; ++n) {
    Value* v = b.read(register_at(o, n), 32 * each);
    set_words(b, at, b.ir.CreateTrunc(v, b.i(32)));
    if (b.precision) b.precision->matrix_source(at, register_at(o, n));
    if (b.undefined) b.undefined->matrix_source(at, register_at(o, n), each);
    if (each == 2) set_words(b, at + 1, b.ir.CreateTrunc(b.ir.CreateLShr(v, 32), b.i(32)));
    at += each;
  }
}

void write_fragment(Builder& b, const TensorOp& op, char matrix, const Operand& o) {
  unsigned words = fragment_words(op, matrix);
  unsigned registers = register_count(o), each = registers ? words / registers : 0;
  if ((each != 1 && each != 2) || each * registers != words) return b.refuse("registers of a fragment");
  for (unsigned n = 0; n < registers; ++n) {
    Value* v = result_word(b, n * each);
    if (each == 2)
      v = b.ir.CreateOr(b.ir.CreateZExt(v, b.i(64)),
                        b.ir.CreateShl(b.ir.CreateZExt(result_word(b, n * 2 + 1), b.i(64)), 32));
    b.write(register_at(o, n), v);
    if (b.undefined) b.undefined->matrix_result(register_at(o, n), n * each, each);
  }
}

char loaded_matrix(const TensorOp& op) {
  return op.kind == TensorKind::load_a ? 'a' : op.kind == TensorKind::load_b ? 'b' : 'c';
}

// Before the lanes meet: where the shadows of the result go.
void name_results(Builder& b, const TensorOp& op, char matrix, const Operand& o) {
  if (!b.precision) return;
  const unsigned words = fragment_words(op, matrix), registers = register_count(o);
  for (unsigned n = 0; n < registers; ++n) b.precision->matrix_result(n * (words / registers), register_at(o, n));
}

// The lane's bytes: a place, evaluated again after each stop.
using MakePlace = std::function<Builder::Place()>;

Builder::Place moved(Builder& b, Builder::Place p, Value* by) {
  p.base = p.base ? b.ir.CreateAdd(p.base, by) : by;
  return p;
}

void check_bytes(Builder& b, const MakePlace& place, unsigned bytes, bool is_write) {
  for (unsigned at = 0; at < bytes; at += 16) {  // 16 bytes are what the manual wants aligned
    Access a;
    a.place = place();
    a.place.displacement += at;
    a.bytes = std::min(bytes, 16u);
    a.is_write = is_write;
    check_access(b, a);
  }
}

// Calls f(word, bits, width) for what of a piece has one shadow: words, or two of them where elements are as wide.
template <typename F> void each_shadowed(Builder& b, const std::vector<Value*>& words, bool doubles, F&& f) {
  for (unsigned n = 0; n < words.size(); n += doubles ? 2 : 1) {
    Value* bits = words[n];
    if (doubles)
      bits = b.ir.CreateOr(b.ir.CreateZExt(bits, b.i(64)), b.ir.CreateShl(b.ir.CreateZExt(words[n + 1], b.i(64)), 32));
    f(n, bits, doubles ? 64u : 32u);
  }
}

void load_bytes(Builder& b, const MakePlace& place, unsigned bytes, bool doubles = false) {
  before_access(b, place, false);
  check_bytes(b, place, bytes, false);
  Access a;
  a.place = place();
  a.bytes = bytes;
  Value* pointer = b.host_pointer(a.place);
  std::vector<Value*> words;
  for (unsigned n = 0; n < bytes / 4; ++n) {
    words.push_back(b.load(b.i(32), b.pointer_at(pointer, 4 * n), a.place.space));
    set_words(b, n, words.back());
  }
  if (b.precision)
    each_shadowed(b, words, doubles, [&](unsigned n, Value* bits, unsigned width) {
      b.precision->load_word(n, b.pointer_at(pointer, 4 * n), bits, width);
    });
  if (b.undefined) b.undefined->load_words(a);
  log_access(b, a, {});
}

void store_bytes(Builder& b, const MakePlace& place, unsigned bytes, const Operand& fragment, bool doubles = false) {
  before_access(b, place, false);
  check_bytes(b, place, bytes, true);
  Access a;
  a.place = place();
  a.bytes = bytes;
  a.is_write = true;
  std::vector<Value*> words;
  for (unsigned n = 0; n < bytes / 4; ++n) words.push_back(result_word(b, n));
  log_access(b, a, words);
  Value* pointer = b.host_pointer(a.place);
  for (unsigned n = 0; n < bytes / 4; ++n) b.store(words[n], b.pointer_at(pointer, 4 * n), a.place.space);
  if (b.precision)
    each_shadowed(b, words, doubles, [&](unsigned n, Value* bits, unsigned width) {
      b.precision->store_word(n, b.pointer_at(pointer, 4 * n), bits, width);
    });
  if (b.undefined) b.undefined->store_words(a, fragment);
}

// wmma.load, wmma.store: [p] and the distance of lines in elements, or the lines lie without gaps.
MakePlace piece_of(Builder& b, const Instruction& i, const TensorOp& op, const Operand& address,
                   const Operand* stride) {
  MatrixLines lines = matrix_lines(op);
  unsigned pieces = lines.line_bytes / lines.piece_bytes;
  return [&b, &i, &address, stride, lines, pieces] {
    auto& ir = b.ir;
    Value* lane = b.special("%laneid", 64);
    Value* line = ir.CreateUDiv(lane, b.constant(64, pieces));
    Value* distance = b.constant(64, lines.line_bytes);
    if (stride) {
      distance = ir.CreateZExt(b.read(*stride, 32), b.i(64));
      distance = ir.CreateLShr(ir.CreateMul(distance, b.constant(64, lines.element_bits)), 3);
    }
    Value* within = ir.CreateMul(ir.CreateURem(lane, b.constant(64, pieces)), b.constant(64, lines.piece_bytes));
    return moved(b, b.place(address, b.space_of(i)), ir.CreateAdd(ir.CreateMul(line, distance), within));
  };
}

void lower_rows(Builder& b, const Instruction& i, const TensorOp& op) {
  bool store = op.kind == TensorKind::stmatrix;
  const Operand &address = i.operands[store ? 0 : 1], &registers = i.operands[store ? 1 : 0];
  MakePlace place = [&] { return b.place(address, b.space_of(i)); };
  auto gives_row = [&] { return b.ir.CreateICmpULT(b.special("%laneid", 32), b.constant(32, 8u * op.count)); };
  if (store) {
    unsigned at = 0;
    read_fragment(b, op, 'd', registers, at);
    if (b.precision) b.precision->result_words(4);
    meet(b, op);
    b.when(gives_row(), [&] { store_bytes(b, place, 16, registers); });
  } else {
    b.when(gives_row(), [&] { load_bytes(b, place, 16); });
    name_results(b, op, 'd', registers);
    meet(b, op);
    write_fragment(b, op, 'd', registers);
  }
}

}  // namespace

void lower_tensor(Builder& b, const Instruction& i) {
  TensorOp op;
  if (std::string why = describe_tensor(i, op); !why.empty()) return b.refuse(why);
  const auto& o = i.operands;
  unsigned at = 0;
  if (b.precision) b.precision->begin_matrix();
  if (b.undefined) b.undefined->begin_matrix();
  switch (op.kind) {
    case TensorKind::mma:
    case TensorKind::wmma:
      read_fragment(b, op, 'a', o[1], at);
      read_fragment(b, op, 'b', o[2], at);
      read_fragment(b, op, 'c', o[3], at);
      if (op.sparse) set_words(b, at, b.read(o[4], 32));
      name_results(b, op, 'd', o[0]);
      meet(b, op);
      return write_fragment(b, op, 'd', o[0]);
    case TensorKind::load_a:
    case TensorKind::load_b:
    case TensorKind::load_c:
      load_bytes(b, piece_of(b, i, op, o[1], o.size() > 2 ? &o[2] : nullptr), matrix_lines(op).piece_bytes,
                 matrix_lines(op).element_bits == 64);
      name_results(b, op, loaded_matrix(op), o[0]);
      meet(b, op);
      return write_fragment(b, op, loaded_matrix(op), o[0]);
    case TensorKind::store_d:
      read_fragment(b, op, 'd', o[1], at);
      if (b.precision) b.precision->result_words(matrix_lines(op).piece_bytes / 4);
      meet(b, op);
      return store_bytes(b, piece_of(b, i, op, o[0], o.size() > 2 ? &o[2] : nullptr), matrix_lines(op).piece_bytes,
                         o[1], matrix_lines(op).element_bits == 64);
    case TensorKind::movmatrix:
      set_words(b, 0, b.read(o[1], 32));
      if (b.precision) {
        b.precision->matrix_source(0, o[1]);
        b.precision->matrix_result(0, o[0]);
      }
      if (b.undefined) b.undefined->matrix_source(0, o[1], 1);
      meet(b, op);
      b.write(o[0], result_word(b, 0));
      if (b.undefined) b.undefined->matrix_result(o[0], 0, 1);
      return;
    default: return lower_rows(b, i, op);
  }
}

}  // namespace deadheat::engine
