// Copies by tensor maps (PTX ISA 9.7.9.27), and maps that kernels make: tensormap.replace (9.7.9.28),
// tensormap.cp_fenceproxy (9.7.13.5). Compiled code gathers operands; what a map says is the machine's business.
// Accesses to maps are not among those that races are looked for in, so that nobody stops before them.
#include "replay/engine/access.h"
#include "replay/engine/lower.h"
#include "tracer/ptx/tensor_map.h"

namespace deadheat::engine {

using llvm::Value;
using ptx::Modifier;
using ptx::Operand;

namespace {

void set_argument(Builder& b, unsigned n, Value* v) {
  b.thread_store(offsetof(ThreadContext, arg) + 8 * n, b.ir.CreateZExtOrTrunc(v, b.i(64)));
}

Value* site_number(Builder& b) { return b.constant(32, b.site ? b.site->id : no_site); }

// [map, {c0, …}]
bool is_tensor(const Operand& o) {
  return o.kind == Operand::Kind::address && o.elements.size() == 2 && o.elements[1].kind == Operand::Kind::vector &&
         !o.elements[1].elements.empty() && o.elements[1].elements.size() <= ptx::most_dimensions;
}

struct ReplacedField {
  Modifier modifier;
  TensorField field;
};
constexpr ReplacedField replaced_fields[] = {{Modifier::global_address, TensorField::global_address},
                                             {Modifier::rank, TensorField::rank},
                                             {Modifier::box_dim, TensorField::box_dim},
                                             {Modifier::global_dim, TensorField::global_dim},
                                             {Modifier::global_stride, TensorField::global_stride},
                                             {Modifier::element_stride, TensorField::element_stride},
                                             {Modifier::elemtype, TensorField::elemtype},
                                             {Modifier::interleave_layout, TensorField::interleave_layout},
                                             {Modifier::swizzle_mode, TensorField::swizzle_mode},
                                             {Modifier::fill_mode, TensorField::fill_mode}};

// tensormap.replace.tile.field.space.b1024.type [addr]{, ord}, new_val
void lower_replace(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  const ReplacedField* found = nullptr;
  for (const ReplacedField& line : replaced_fields)
    if (i.has(line.modifier)) found = &line;
  if (!found || o.size() < 2) return b.refuse("field of a tensor map");
  const Space space = b.space_of(i);
  const bool wide = found->field == TensorField::global_address || found->field == TensorField::global_stride;
  Value* value = b.ir.CreateZExt(b.read(o.back(), wide ? 64 : 32), b.i(64));
  Value* ordinal = o.size() > 2 ? b.read(o[1], 32) : static_cast<Value*>(b.constant(32, 0));
  b.call_service(offsetof(Services, tensor_replace), b.ir.getVoidTy(),
                 {b.thread(), site_number(b), b.generic_address(b.place(o[0], space)),
                  b.constant(32, std::uint32_t(found->field)), ordinal, value});
}

// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [dst], [src], 128
void lower_map_copy(Builder& b, const ptx::Instruction& i) {
  const auto& o = i.operands;
  if (o.size() < 3) return b.refuse("operands");
  b.call_service(offsetof(Services, tensor_map_copy), b.ir.getVoidTy(),
                 {b.thread(), site_number(b), b.generic_address(b.place(o[0], Space::global)),
                  b.generic_address(b.place(o[1], Space::shared))});
}

} // namespace

void lower_tensormap(Builder& b, const ptx::Instruction& i) {
  if (i.has(Modifier::replace)) return lower_replace(b, i);
  if (i.has(Modifier::cp_fenceproxy)) return lower_map_copy(b, i);
  b.refuse("tensormap");
}

// cp.async.bulk.tensor.dim.dst.src… [shared], [map, coordinates], [mbar] {, offsets} {, ctaMask} {, cache-policy}
// cp{.reduce}.async.bulk.tensor.dim.dst.src… [map, coordinates], [shared] {, cache-policy}
void lower_box(Builder& b, const ptx::Instruction& i, std::uint64_t reduction) {
  const auto& o = i.operands;
  const bool loads = i.has(Modifier::mbarrier_complete_tx_bytes), multicast = i.has(Modifier::multicast_cluster),
             im2col = i.has(Modifier::im2col);
  const std::size_t shared = loads ? 0 : 1, tensor = loads ? 1 : 0;
  if (o.size() < 2u + loads * (1 + im2col + multicast) || !is_tensor(o[tensor])) return b.refuse("operands");
  before_access(b, o[shared], Space::shared, true);
  const auto& coordinates = o[tensor].elements[1].elements;
  set_argument(b, box_shared, b.generic_address(b.place(o[shared], Space::shared)));
  set_argument(b, box_map, b.generic_address(b.place(o[tensor], Space::generic)));
  const bool by_pixels = im2col || i.has(Modifier::im2col_no_offs);
  set_argument(b, box_form, b.constant(64, coordinates.size() | (by_pixels ? std::uint64_t(box_im2col) : 0)));
  set_argument(b, box_mbarrier, loads ? b.generic_address(b.place(o[2], Space::shared)) : b.constant(64, 0));
  set_argument(b, box_targets, multicast ? b.read(o[3 + im2col], 16) : static_cast<Value*>(b.constant(64, 0)));
  set_argument(b, box_reduction, b.constant(64, reduction));
  for (std::size_t d = 0; d < coordinates.size(); ++d)
    set_argument(b, box_coordinates + unsigned(d), b.read(coordinates[d], 32));
  const auto* offsets = im2col && loads ? &o[3].elements : nullptr;
  for (unsigned n = 0; n < 3; ++n)
    set_argument(b, box_offsets + n,
                 offsets && n < offsets->size() ? b.read((*offsets)[n], 16) : static_cast<Value*>(b.constant(64, 0)));
  b.call_service(offsetof(Services, box_copy), b.ir.getVoidTy(), {b.thread(), site_number(b)});
}

} // namespace deadheat::engine
