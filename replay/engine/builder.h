// Lowers one PTX function to one LLVM function, for one kernel and one mode.
//
// Lowering is table-driven: lower.h maps each opcode to a function that uses this class. What the class gives them:
// registers, operands, addresses, guarded stops.
//
// Invariants:
//  - A PTX register is an alloca (promoted to SSA by the optimizer) or, in functions with very many stops, a frame
//  slot.
//  - After a stop nothing but registers, the frame and the values of the entry block may be used: temporaries made
//    before a stop are dead after it.
//  - NaN: a register whose every definition is floating-point arithmetic is `raw`: the payload and sign of a NaN in it
//    are whatever the host made. Reading its bits makes NaNs canonical: 0x7fffffff for f32, as GPUs do; for f64 the NaN
//    that a GPU makes of invalid operations, 0xfff8000000000000, where GPUs would keep an operand's payload (PTX ISA
//    9.7.3). So arithmetic pays nothing, and no payload ever depends on the host or on the mode.
//
// Thread-safety: none; one builder, one function, one LLVMContext.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "replay/engine/abi.h"
#include "replay/engine/llvm_headers.h"
#include "replay/engine/region_plan.h"
#include "replay/engine/regions.h"
#include "replay/engine/saves.h"
#include "replay/engine/tables.h"

namespace deadheat::engine {

// Beyond Step: a function returned to its caller.
inline constexpr std::int32_t returned = -1;

// By mode: what a PTX function pointer points to.
struct FunctionPointer {
  FunctionDescriptor by_mode[32];
};
inline unsigned number(Mode m) {
  return (m.record ? 1u : 0u) | (m.control ? 2u : 0u) | (m.check ? 4u : 0u) | (m.written ? 8u : 0u) |
         (m.precision ? 16u : 0u);
}

class ProbeNotes;

// One compilation: a kernel in a mode.
struct Unit {
  const ModuleTables& tables;
  const KernelTables& kernel;
  Mode mode;
  std::vector<bool> stops; // by function
  llvm::Module& module;
  std::function<std::uint64_t(std::string_view)> address_of; // of .global and .const variables
  std::function<FunctionPointer*(std::uint32_t)> pointer_to; // of functions whose address is taken
  std::map<std::uint32_t, std::uint32_t> frame_bytes; // known once a function is built
  std::map<std::uint32_t, std::uint32_t> params_offset;
  std::map<std::uint32_t, std::uint32_t> cleared_bytes;
  std::map<std::uint32_t, std::set<std::int64_t>> computed_results = {}; // by function (UndefinedPlan::results)
  std::uint64_t saves_threshold; // registers to save over all stops from which they live in the frame
};

// What an access of region code touches: a state space, or one of these. Different tags never alias, but for generic
// ones. Inlining gives aliasing scopes new names, so accesses carry tags until all code is in place.
struct MemoryTag {
  static constexpr unsigned context = 6, guesses = 7, positions = 8, saved = 9; // saved + word: a saved register
};
void tag_memory(llvm::Instruction* access, unsigned tag);
void resolve_tags(llvm::Module& module);

llvm::Function* declare_function(Unit& unit, std::uint32_t function);
// The constant that holds a function's frame size, known when all of the unit is built (recursion).
inline std::string frame_bytes_name(std::uint32_t function) { return "frame.bytes." + std::to_string(function); }

class Undefined;
class Precision;

class Builder {
 public:
  // With a plan: the kernel's regions (regions.h), a function of one thread's indices instead of its context. With
  // notes as well: their probes (region_probe.h).
  Builder(Unit& unit, std::uint32_t function, const RegionPlan* plan = nullptr, ProbeNotes* probe = nullptr);
  ~Builder();
  // Builds the body; empty on success, else why it cannot be built.
  std::string build();

  llvm::IRBuilder<> ir;
  Unit& unit;
  const FunctionTables& tables;
  const ptx::Function& function;
  const Mode mode;
  std::uint32_t statement = 0; // being lowered
  const Site* site = nullptr; // of it, or null
  std::uint32_t warpgroup_at = 0; // of the WarpgroupLane in the frame; 0: none yet
  std::unique_ptr<Undefined> undefined; // in mode.written
  std::unique_ptr<Precision> precision; // in mode.precision

  // ---- refusal: names the reason; the function's code is then thrown away
  void refuse(const std::string& why);
  bool refused() const { return !refusal_.empty(); }

  // ---- types
  llvm::IntegerType* i(unsigned bits) { return llvm::IntegerType::get(context(), bits); }
  llvm::Type* f32() { return ir.getFloatTy(); }
  llvm::Type* f64() { return ir.getDoubleTy(); }
  llvm::LLVMContext& context() { return ir.getContext(); }
  llvm::Constant* constant(unsigned bits, std::uint64_t value) { return llvm::ConstantInt::get(i(bits), value); }

  // ---- operands
  llvm::Value* read(const ptx::Operand& operand, unsigned bits); // bits, NaNs canonical
  llvm::Value* read_float(const ptx::Operand& operand, ptx::Type type); // f32 or f64: raw
  llvm::Value* read_predicate(const ptx::Operand& operand);
  void write(const ptx::Operand& destination, llvm::Value* bits, bool is_signed = false);
  void write_float(const ptx::Operand& destination, llvm::Value* value); // raw float or double
  llvm::Value* special(std::string_view name, unsigned bits);
  bool is_raw(const ptx::Operand& o) const { return o.kind == ptx::Operand::Kind::reg && slots_[o.reg].raw; }
  unsigned register_bits(const ptx::Operand& reg) const; // 1 for predicates
  bool is_read(const ptx::Operand& destination) const; // some instruction reads what this one writes
  llvm::Value* canonical_bits(llvm::Value* float_or_double);

  // ---- addresses
  // Where an access goes. `offset`: of shared, local and param an offset in the block's shared memory, the thread's
  // stack, the parameter block; of global and constant a device address; of generic a generic address. 64 bits.
  struct Place {
    Space space = Space::generic;
    llvm::Value* base = nullptr; // 64 bits; may be null: constant alone
    std::int64_t displacement = 0;
    bool wide_base = true; // base needs no truncation to 32 bits
    std::int32_t base_register = -1; // that base was read from
  };
  Place place(const ptx::Operand& address, Space space);
  Space space_of(const ptx::Instruction& instruction);
  llvm::Value* offset(const Place& place); // the number above
  llvm::Value* generic_address(const Place& place); // as traces name it
  llvm::Value* host_pointer(const Place& place);
  llvm::Value* cluster_pointer(llvm::Value* shared_offset);
  llvm::Value* is_visible(const Place& place); // i1: shared or global; null when it certainly is
  llvm::Value* symbol_address(const ptx::Operand& symbol); // what mov of a variable or function gives
  llvm::Value* load(llvm::Type* type, llvm::Value* pointer, Space space, bool invariant = false);
  void store(llvm::Value* value, llvm::Value* pointer, Space space);
  // The same, but the caller notes whether it changes anything.
  void store_unnoted(llvm::Value* value, llvm::Value* pointer, Space space);
  void note_change(llvm::Value* changed); // ExecContext::changes; null: it does

  // ---- context fields
  // The ThreadContext. Regions have none: what needs it is refused there.
  llvm::Value* thread();
  bool in_regions() const { return plan_ != nullptr; }
  ProbeNotes* probe() { return probe_; }
  // Regions: 1 in fast code. A pointer to a field of the RegionContext, and such a field.
  llvm::Value* is_fast() { return fast_; }
  llvm::Value* region_pointer(std::size_t offset) { return pointer_at(thread_, offset); }
  llvm::Value* region_field(std::size_t offset, llvm::Type* type);
  llvm::Function* built() { return llvm_function_; }
  llvm::Value* thread_load(std::size_t offset, unsigned bits);
  void thread_store(std::size_t offset, llvm::Value* value);
  llvm::Value* pointer_at(llvm::Value* base, std::uint64_t offset);
  llvm::Value* context_load(llvm::Value* base, std::uint64_t offset, llvm::Type* type);
  void context_store(llvm::Value* base, std::uint64_t offset, llvm::Value* value);
  llvm::Value* entry_value(const std::string& name, const std::function<llvm::Value*()>& make);
  llvm::Value* block_context();
  llvm::Value* launch_context();
  llvm::Value* exec_context();
  llvm::Value* shared_base();
  llvm::Value* stack_base();
  llvm::Value* frame_base_offset(); // of this frame in the stack, 64 bits
  llvm::Value* call_service(std::size_t offset, llvm::Type* result, llvm::ArrayRef<llvm::Value*> arguments);
  llvm::Constant* host_symbol(const void* address); // of this program's own code or constants (image.h)
  llvm::Value* call_helper(const void* helper, llvm::Type* result, llvm::ArrayRef<llvm::Value*> arguments,
                           bool pure = true);
  // A call on a hardly taken path, which keeps every register (cold_calls.h).
  void call_cold(const void* entry, llvm::ArrayRef<llvm::Value*> arguments);
  llvm::Value* frame() { return frame_; }

  // ---- control
  llvm::BasicBlock* new_block(const char* name = "");
  // Code that runs when `condition` holds; goes on after it in either case.
  void when(llvm::Value* condition, const std::function<void()>& body, bool likely = true);
  // Regions: the threads of the block meet here. Goes on behind this call, with only registers in hand.
  void meet();
  // Regions: whether a branch is the back edge of a loop whose header is a stop; if so, all of it is done.
  bool branch_back(std::string_view label);
  // Stops with `step`; resumes, with only registers in hand, behind this call.
  void stop(Step step);
  // Stops when `condition` holds; either way goes on behind this call, with only registers in hand.
  void stop_when(llvm::Value* condition, Step step, const std::function<void()>& before = {});
  void finish(std::int32_t step); // returns for good
  llvm::BasicBlock* label_block(std::string_view label);
  // A stop inside a call: saves and returns `step` (a value) when the callee stopped; resumes at `again`.
  void stop_with(llvm::Value* step, llvm::BasicBlock* again);
  llvm::MDNode* unlikely();

  std::uint32_t variable_offset(std::uint32_t variable) const { return variable_offsets_[variable]; } // in the frame
  std::uint32_t param_offset(std::string_view name, bool& found) const; // in the frame, or the parameter block
  std::uint32_t frame_slot(std::uint32_t bytes); // reserves frame bytes for the code generator's own use
  std::uint32_t texture_slot(); // of the TextureAccess that all of the function's instructions share
  // Regions, once built: by point of the plan, the registers that its stop reads back and writes; where one is saved.
  const std::vector<StopPoint>& points() const { return points_; }
  std::uint32_t saved_word(ptx::RegisterId reg); // number of its array
  llvm::Type* saved_type(ptx::RegisterId reg) const; // of its elements: 4, 8 or 16 bytes
  llvm::Value* saved_element(llvm::IRBuilder<>& at, llvm::Value* saved, ptx::RegisterId reg, llvm::Value* linear);
  std::uint32_t saved_words() const { return saved_words_; }
  std::int32_t guess_of(ptx::RegisterId reg) const; // its number, or -1
  const std::vector<ptx::RegisterId>& guesses() const { return guesses_; }

 private:
  friend class Undefined;
  friend class Precision;
  struct Slot {
    llvm::Value* pointer = nullptr;
    llvm::Type* type = nullptr;
    bool raw = false;
    std::uint32_t saved_at = 0; // frame offset; 0: none yet
  };
  void enter_regions();
  void leave_regions();
  void before_statement();
  const StopPoint* back_edge(std::uint32_t at) const;
  void save_and_meet(const StopPoint& point, llvm::BasicBlock* next);
  llvm::Value* special_of_thread(std::string_view name);
  void save(ptx::RegisterId reg);
  void restore(ptx::RegisterId reg);
  void recompute(const std::vector<ptx::RegisterId>& wanted);
  void lay_out_frame();
  void classify_registers();
  void make_slots();
  void find_stops();
  void find_unwritten(const ptx::Liveness& liveness);
  StopPoint* find_point(std::uint32_t statement);
  bool can_stop_at(const ptx::Instruction& instruction, const Site* site) const;
  bool always_stops_at(const ptx::Instruction& instruction, const Site* site) const;
  void lower_statement(const ptx::Statement& statement);
  void lower_instruction(const ptx::Instruction& instruction);
  void lower_guarded(const ptx::Instruction& instruction);
  llvm::Value* load_slot(const Slot& slot);
  void store_slot(const Slot& slot, llvm::Value* value);
  std::uint32_t saved_offset(ptx::RegisterId reg);
  void save_and_return(llvm::Value* step, llvm::BasicBlock* next);
  void mark(llvm::Instruction* access, Space space, bool context_access);

  std::uint32_t index_;
  llvm::Function* llvm_function_ = nullptr;
  llvm::Value* thread_ = nullptr;
  llvm::Value* frame_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::BasicBlock* start_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr; // values of the entry block are made before it
  std::vector<std::pair<std::uint32_t, llvm::BasicBlock*>> resumes_;
  std::map<std::string, llvm::Value*> entry_values_;
  std::map<std::string, llvm::BasicBlock*, std::less<>> labels_;
  std::vector<Slot> slots_;
  std::vector<bool> is_read_; // by register
  std::vector<ptx::RegisterId> unwritten_; // may be read before they are written: zeros, in every run and mode
  std::vector<std::uint32_t> variable_offsets_;
  std::map<std::string_view, std::uint32_t> param_offsets_;
  std::uint32_t frame_bytes_ = 0;
  std::uint32_t texture_slot_ = 0; // 0: none yet
  std::uint32_t params_offset_ = 0;
  std::vector<StopPoint> points_;
  bool frame_homed_ = false;
  bool stops_ = false;
  std::string refusal_;
  // Regions.
  const RegionPlan* plan_ = nullptr;
  ProbeNotes* probe_ = nullptr;
  llvm::Value *linear_ = nullptr, *index_of_[3] = {}, *resume_ = nullptr, *fast_ = nullptr;
  std::vector<std::int32_t> word_of_; // by register
  std::vector<ptx::RegisterId> guesses_;
  std::uint32_t saved_words_ = 0;
  llvm::MDNode* context_scope_ = nullptr; // alias scopes: our contexts, and each state space
  llvm::MDNode* space_alias_[6] = {};
  llvm::MDNode* space_noalias_[6] = {};
  llvm::MDNode* context_noalias_ = nullptr;
};

// Offsets in a frame.
inline constexpr std::uint32_t frame_resume = 0, frame_callee = 4, frame_carry = 8, frame_legal = 12, frame_header = 16;

} // namespace deadheat::engine
