// Calls of malloc and free: in place of the runtime's functions a clone calls functions of its own, one a call, which
// call those and record it. There the order is theirs to see to: free is recorded before it is called, malloc after it
// has returned, both with tickets of the device. So where malloc gives out memory that was freed, the ticket of that
// free is the earlier one.
#include <algorithm>

#include "tracer/ptx/instrument_function.h"
#include "tracer/ptx/rewrite.h"

namespace deadheat::ptx {

namespace {

constexpr const char* result_name = "__dh_result";
constexpr const char* given_name = "__dh_given";

// Does the module declare it as the runtime has it (CUDA programming guide, dynamic global memory allocation)?
bool as_declared(const Module& module, const Instruction& i, bool gives) {
  auto word = [](const std::vector<Variable>& list, std::size_t count) {
    return list.size() == count && std::all_of(list.begin(), list.end(), [](const Variable& v) { return v.size == 8; });
  };
  const auto at = std::find_if(module.functions.begin(), module.functions.end(),
                               [&](const Function& f) { return f.name == callee(i); });
  return at != module.functions.end() && word(at->params, 1) && word(at->results, gives ? 1 : 0) &&
         i.operands[0].elements.size() == (gives ? 1 : 0) && i.operands.size() > 2 &&
         i.operands[2].elements.size() == 1;
}

} // namespace

void FunctionClone::plan_heap(std::uint32_t statement) {
  const std::uint32_t number = site_of_[statement];
  if (number == SiteTable::none || sites_[number].kind != SiteKind::heap) return;
  const bool gives = sites_[number].access != AccessKind::free;
  if (!as_declared(module_, *function_.body[statement].instruction(), gives)) {
    ++left_out_;
    return;
  }
  Slot slot;
  slot.kind = Slot::Kind::heap;
  slot.site = number;
  slot.offset = segment_header_bytes;
  slot.both_tickets = clocks_.both;
  slot.address = slot.offset + 32;
  if (gives) slot.size = slot.address + lanes8;
  Segment segment;
  segment.bytes = slot.address + (gives ? 2 : 1) * lanes8;
  segment.slots.push_back(slot);
  heap_calls_[statement] = {statement, statement, std::uint32_t(segments_.size()), false};
  slots_[statement] = slot;
  segments_.push_back(std::move(segment));
  strong_ = true;
}

std::string FunctionClone::heap_head(std::uint32_t site) const {
  std::string head = "\n.func ";
  if (sites_[site].access != AccessKind::free) head += std::string("(.param .b64 ") + result_name + ") ";
  return head + heap_prefix + std::to_string(site) + "(.param .b64 " + given_name + ", .param .align 8 .b8 " +
         control_name + "[" + std::to_string(control_bytes) + "])";
}

std::string FunctionClone::heap_declarations() const {
  std::string text;
  for (const auto& [statement, plan] : heap_calls_) text += heap_head(site_of_[statement]) + ";\n";
  return text;
}

void FunctionClone::heap_function(const Plan& plan, const Slot& slot) {
  const bool gives = slot.size != 0;
  out_ += heap_head(slot.site) + "\n{";
  declare_registers();
  load_control();
  put(std::string("ld.param.b64 %do_a, [") + given_name + "];");
  auto store = [&](const char* value, std::uint32_t at) {
    put(std::string("st.global.b64 [%dh_wide+") + std::to_string(at) + "], " + value + ";");
  };
  auto call_runtime = [&] {
    put("{");
    put(".param .b64 __dh_argument;");
    put("st.param.b64 [__dh_argument], %do_a;");
    if (gives) put(".param .b64 __dh_returned;");
    put(gives ? "call (__dh_returned), malloc, (__dh_argument);" : "call free, (__dh_argument);");
    if (gives) put("ld.param.b64 %do_r64, [__dh_returned];");
    put("}");
  };
  if (gives) {
    call_runtime();
    begin(plan);
    store("%do_r64", slot.address);
    store("%do_a", slot.size);
    put("cvt.u32.u64 %dh_t1, %do_r64;");
    put("and.b32 %dh_t1, %dh_t1, %dh_zero;");
    tickets_after(slot);
    end(plan);
    put(std::string("st.param.b64 [") + result_name + "], %do_r64;");
  } else {
    begin(plan);
    store("%do_a", slot.address);
    ticket(false, false, slot.offset + 8);
    if (slot.both_tickets) ticket(true, false, slot.offset + 16);
    put("fence.acq_rel.gpu;"); // what the lanes' frees do comes after the tickets; they meet where the segment ends
    put("mov.u32 %dh_t1, 0;");
    end(plan);
    call_runtime();
  }
  put("ret;");
  out_ += "\n}\n";
}

}  // namespace deadheat::ptx
