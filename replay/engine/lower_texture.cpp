// tex, tld4, txq, suld, sust, suq (PTX ISA, "Texture Instructions", "Surface Instructions"), in unified mode.
#include "replay/engine/lower_texture.h"

#include <cstring>
#include <optional>

#include "replay/engine/lower.h"
#include "replay/engine/texture.h"
#include "replay/engine/undefined.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

bool of_surface(Opcode o) { return o == Opcode::suld || o == Opcode::sust; }

constexpr const char* no_references =
    "texture and surface references are not supported by the embedded device: objects are";

std::string refusal_of(ptx::TextureTrouble trouble) {
  using Trouble = ptx::TextureTrouble;
  switch (trouble) {
    case Trouble::none: return {};
    case Trouble::operands: return "operands";
    case Trouble::types: return "types";
    case Trouble::vectors: return "vector operand";
    case Trouble::references: return no_references;
    case Trouble::samplers: return "separate samplers are not supported by the embedded device";
    case Trouble::residency: return "answers whether texels are resident are not supported by the embedded device";
    case Trouble::cube_gathers: return "gathers from cube maps are not supported by the embedded device";
    case Trouble::depths: return "comparisons of depths are not supported by the embedded device";
    case Trouble::samples: return "textures of several samples are not supported by the embedded device";
  }
  return {};
}

std::optional<TextureQuery> query_of(const Instruction& i) {
  struct Line {
    Modifier word;
    TextureQuery query;
  };
  static constexpr Line lines[] = {{Modifier::width, TextureQuery::width},
                                   {Modifier::height, TextureQuery::height},
                                   {Modifier::depth, TextureQuery::depth},
                                   {Modifier::channel_data_type, TextureQuery::channel_data_type},
                                   {Modifier::channel_order, TextureQuery::channel_order},
                                   {Modifier::normalized_coords, TextureQuery::normalized_coords},
                                   {Modifier::array_size, TextureQuery::array_size},
                                   {Modifier::num_mipmap_levels, TextureQuery::num_mipmap_levels},
                                   {Modifier::num_samples, TextureQuery::num_samples},
                                   {Modifier::filter_mode, TextureQuery::filter_mode},
                                   {Modifier::addr_mode_0, TextureQuery::addr_mode_0},
                                   {Modifier::addr_mode_1, TextureQuery::addr_mode_1},
                                   {Modifier::addr_mode_2, TextureQuery::addr_mode_2}};
  for (const Line& line : lines)
    if (i.has(line.word)) return line.query;
  return std::nullopt;
}

// ---- the access in the frame

class Lowered {
 public:
  Lowered(Builder& b, const Instruction& i) : b_(b), i_(i), slot_(b.texture_slot()) {}

  void put(std::size_t offset, Value* v) { b_.context_store(b_.frame(), slot_ + offset, v); }
  void put(std::size_t offset, std::uint32_t v) { put(offset, b_.constant(32, v)); }
  Value* get(std::size_t offset, unsigned bits) { return b_.context_load(b_.frame(), slot_ + offset, b_.i(bits)); }

  void begin(const ptx::TextureInstruction& t) {
    std::uint64_t code = 0;
    std::memcpy(&code, &t.form, sizeof code);
    put(offsetof(TextureAccess, object), b_.read(*t.object, 64));
    put(offsetof(TextureAccess, given.form), b_.constant(64, code));
    put(offsetof(TextureAccess, site), b_.site->id);
    put(offsetof(TextureAccess, texel_site), b_.tables.texels.at(b_.statement));
    put(offsetof(TextureAccess, phase), 0u);
    words(offsetof(TextureAccess, given.layer), t.place, 0, t.layered ? 1 : 0, 1);
    words(offsetof(TextureAccess, given.coordinate), t.place, t.layered ? 1 : 0, t.coordinates, 3);
  }

  // So many words of a vector, or of one alone; the others, up to `most`, are 0.
  void words(std::size_t offset, const Operand* from, std::size_t first, std::size_t count, std::size_t most) {
    for (std::size_t n = 0; n < most; ++n) {
      const Operand* word = from && n < count ? ptx::word_of(*from, first + n) : nullptr;
      put(offset + 4 * n, word ? b_.read(*word, 32) : static_cast<Value*>(b_.constant(32, 0)));
    }
  }

  void run() {
    std::uint32_t mode = 0;
    if (b_.mode.record) mode |= texture_record;
    if (b_.mode.control) mode |= texture_control;
    if (b_.mode.written && b_.undefined) mode |= texture_written;
    llvm::BasicBlock *going = b_.new_block("texture"), *done = b_.new_block("texture_done");
    b_.ir.CreateBr(going);
    b_.ir.SetInsertPoint(going);
    Value* step = b_.call_helper(reinterpret_cast<const void*>(&deadheat_texture_step), b_.i(32),
                                 {b_.thread(), b_.pointer_at(b_.frame(), slot_), b_.constant(32, mode)}, false);
    const auto is = [&](TextureStep what) { return b_.ir.CreateICmpEQ(step, b_.constant(32, std::uint64_t(what))); };
    llvm::BasicBlock *ahead = b_.new_block("texture_stops"), *fault = b_.new_block("texture_fault");
    b_.ir.CreateCondBr(is(TextureStep::done), done, ahead);
    b_.ir.SetInsertPoint(ahead);
    if (b_.mode.control) {
      llvm::BasicBlock* stop = b_.new_block("texture_stop");
      b_.ir.CreateCondBr(is(TextureStep::fault), fault, stop);
      b_.ir.SetInsertPoint(stop);
      b_.stop_with(b_.constant(32, std::uint64_t(Step::visible)), going);
    } else {
      b_.ir.CreateBr(fault);
    }
    b_.ir.SetInsertPoint(fault);
    b_.finish(std::int32_t(Step::fault));
    b_.ir.SetInsertPoint(done);
  }

  void result(const Operand& to, std::size_t at, unsigned bits) {
    b_.write(to, get(offsetof(TextureAccess, value) + at, bits));
    if (b_.undefined) b_.undefined->set(to, get(offsetof(TextureAccess, undefined) + at, bits));
  }

  // Two halves in one register.
  void result_pair(const Operand& to, std::size_t at) {
    const auto both = [&](std::size_t offset) {
      Value* high = b_.ir.CreateShl(get(offset + at + 4, 32), 16);
      return b_.ir.CreateOr(b_.ir.CreateAnd(get(offset + at, 32), b_.constant(32, 0xffff)), high);
    };
    b_.write(to, both(offsetof(TextureAccess, value)));
    if (b_.undefined) b_.undefined->set(to, both(offsetof(TextureAccess, undefined)));
  }

 private:
  Builder& b_;
  const Instruction& i_;
  const std::uint32_t slot_;
};

const Operand& element(const Operand& o, unsigned n) { return o.kind == Operand::Kind::vector ? o.elements[n] : o; }

} // namespace

bool is_texture_access(const Instruction& i) {
  return i.opcode == Opcode::tex || i.opcode == Opcode::tld4 || of_surface(i.opcode);
}

std::string texture_refusal(const Instruction& i) {
  if (i.opcode == Opcode::txq || i.opcode == Opcode::suq) {
    if (i.operands.size() < 2 || i.operands[1].kind != Operand::Kind::address) return "operands";
    if (!query_of(i)) return "query not supported by the embedded device";
    return i.operands[1].elements[0].kind == Operand::Kind::symbol ? no_references : "";
  }
  ptx::TextureInstruction found;
  return refusal_of(ptx::texture_instruction(i, found));
}

void lower_tex(Builder& b, const Instruction& i) {
  ptx::TextureInstruction t;
  if (const std::string why = refusal_of(ptx::texture_instruction(i, t)); !why.empty()) return b.refuse(why);
  Lowered l(b, i);
  l.begin(t);
  l.words(offsetof(TextureAccess, given.level), t.level, 0, 1, 1);
  for (unsigned n = 0; n < 2; ++n) l.words(offsetof(TextureAccess, given.gradient) + 12 * n, t.gradient[n], 0, 3, 3);
  l.words(offsetof(TextureAccess, given.offset), t.offset, 0, 3, 3);
  l.run();
  const bool pairs = i.types[0] == Type::f16x2;
  const unsigned bits = t.form.half_results ? 16 : 32;
  for (unsigned n = 0; n < t.value->elements.size() && n < 4; ++n) {
    if (pairs)
      l.result_pair(t.value->elements[n], 8 * n);
    else
      l.result(t.value->elements[n], 4 * n, bits);
  }
}

void lower_surface(Builder& b, const Instruction& i) {
  ptx::TextureInstruction t;
  if (const std::string why = refusal_of(ptx::texture_instruction(i, t)); !why.empty()) return b.refuse(why);
  const bool loads = t.form.op == TextureOp::load;
  const unsigned bytes = t.element_bytes;
  Lowered l(b, i);
  l.begin(t);
  if (!loads) {
    for (std::size_t n = 0; n < 4; ++n) l.put(offsetof(TextureAccess, value) + 4 * n, 0u);
    for (unsigned n = 0; n < t.elements; ++n)
      l.put(offsetof(TextureAccess, value) + bytes * n, b.read(element(*t.value, n), 8 * bytes));
  }
  l.run();
  if (loads)
    for (unsigned n = 0; n < t.elements; ++n) l.result(element(*t.value, n), bytes * n, 8 * bytes);
}

// txq.tquery.b32 d, [a] and, of levels, {, lod}; suq.query.b32 d, [a]
void lower_texture_query(Builder& b, const Instruction& i) {
  if (b.in_regions()) return b.refuse("queries inside a region");
  Value* level = i.operands.size() > 2 ? b.read(i.operands[2], 32) : static_cast<Value*>(b.constant(32, 0));
  Value* answer = b.call_helper(
      reinterpret_cast<const void*>(&deadheat_texture_query), b.i(32),
      {b.thread(), b.read(i.operands[1].elements[0], 64), b.constant(32, std::uint64_t(*query_of(i))), level}, false);
  b.write(i.operands[0], answer);
}

} // namespace deadheat::engine
