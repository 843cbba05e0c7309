// What fetches from textures and accesses to surfaces store: the object's handle, and all that says which texels are
// meant. Which these are the reader of the log works out (ptx/texture.h), who knows the object.
#include "tracer/ptx/instrument_function.h"

namespace deadheat::ptx {

namespace {

// How many words of a vector of up to `most`, or of one alone.
std::uint32_t words_in(const Operand* from, std::uint32_t most) {
  std::uint32_t count = 0;
  while (from && count < most && word_of(*from, count)) ++count;
  return count;
}

} // namespace

// False: a form that is not followed.
bool FunctionClone::texture_slot(std::uint32_t statement, Slot& slot, std::uint32_t& size) {
  TextureInstruction t;
  const auto texels = texels_.find(statement);
  if (texels == texels_.end() ||
      texture_instruction(*function_.body[statement].instruction(), t) != TextureTrouble::none ||
      words_in(t.place, t.coordinates + t.layered) != std::uint32_t(t.coordinates + t.layered))
    return false;
  for (const Operand* gradient : t.gradient)
    if (gradient && words_in(gradient, t.coordinates) != t.coordinates) return false;
  textures_ = true;
  slot.kind = Slot::Kind::texture;
  slot.form = t.form;
  slot.texel_site = texels->second;
  slot.layered = t.layered;
  slot.dimensions = t.coordinates;
  slot.offsets = words_in(t.offset, t.coordinates);
  std::uint32_t at = slot.offset;
  const auto array = [&](std::uint32_t bytes) {
    const std::uint32_t place = at;
    at += bytes;
    return place;
  };
  slot.address = array(lanes8);
  const std::uint32_t gradients = t.form.level == LevelOperand::gradient ? 2 * slot.dimensions : 0;
  if (t.form.op == TextureOp::store_formatted) slot.values = t.elements;
  slot.coordinates =
      array((t.layered + slot.dimensions + (t.level != nullptr) + gradients + slot.offsets + slot.values) * lanes4);
  if (t.form.op == TextureOp::store) slot.digest = array(lanes4);
  size = at - slot.offset;
  return true;
}

void FunctionClone::before_texture(const Instruction& i, const Slot& slot) {
  TextureInstruction t;
  if (texture_instruction(i, t) != TextureTrouble::none) return;
  load_value(*t.object, 64, "%dh_a");
  guard_address(i, false);
  put("st.global.b64 [%dh_wide+" + std::to_string(slot.address) + "], %dh_a;");
  std::uint32_t at = slot.coordinates;
  const auto store = [&](const Operand* from, std::uint32_t count) {
    for (std::uint32_t n = 0; n < count; ++n, at += lanes4) {
      load_value(*word_of(*from, n), 32, "%dh_v");
      put("cvt.u32.u64 %dh_s, %dh_v;");
      put("st.global.b32 [%dh_half+" + std::to_string(at) + "], %dh_s;");
    }
  };
  store(t.place, t.layered + slot.dimensions);
  if (t.level) store(t.level, 1);
  for (const Operand* gradient : t.gradient)
    if (gradient) store(gradient, slot.dimensions);
  store(t.offset, slot.offsets);
  store(t.value, slot.values);
  if (!slot.digest) return;
  Site stored;
  stored.element_bytes = t.element_bytes;
  stored.elements = t.elements;
  load_digest(*t.value, stored);
  put("st.global.b32 [%dh_half+" + std::to_string(slot.digest) + "], %dh_h;");
}

} // namespace deadheat::ptx
