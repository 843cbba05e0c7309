// One function's clone as text. Private to tracer/ptx; instrument.h says what it is about.
//
// Split by what is done: instrument.cpp (the module: which functions, where the text goes), instrument_function.cpp
// (segments, prologue, calls), instrument_slots.cpp (what each site stores), instrument_async.cpp
// (mbarriers, bulk copies, addresses of other blocks' memory), instrument_texture.cpp (textures and surfaces),
// instrument_heap.cpp (calls of malloc and free).
//
// Thread-safety: one object, one function, one thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "deadheat/ptx.h"
#include "tracer/ptx/address_values.h"
#include "tracer/ptx/flow.h"
#include "tracer/ptx/instrument.h"
#include "tracer/ptx/open_products.h"

namespace deadheat::ptx {

inline constexpr const char* control_name = "__dh_control"; // of the added parameter
inline constexpr std::uint32_t lanes8 = 256, lanes4 = 128;  // bytes of an array of 32

// How the strong accesses of a module take tickets. The ring's counter serves a block, or few; the device's serves all
// and is what a kernel full of atomics waits for.
struct Clocks {
  bool in_block =
      false;  // accesses of shared memory, mbarriers too, take the ring's: no strong access may be to either memory
  bool both = false;     // those of global memory take the ring's too: blocks have strong accesses to both
  bool cluster = false;  // shared memory of other blocks can be reached
  bool after_only = false;  // nothing but relaxed atomics, no fences: they order nothing; values and the time after
                            // them tell their places
};
Clocks clocks_of(const Module& module, const SiteTable& sites);

// Bits of the registers that elements are read into which the program drops (`_`): there are no smaller ones.
inline unsigned dropped_bits(const Site& site) { return site.element_bytes < 2 ? 16 : site.element_bytes * 8u; }

// Whether what a copy that completes on an mbarrier does is recorded.
bool follows(const Instruction& bulk_copy);

// Whether the module's code can name the shared memory of other blocks (of a cluster).
bool reaches_cluster(const Module& module);

class FunctionClone {
 public:
  // `cloned`: names of the functions that have clones.
  FunctionClone(const Module& module, std::size_t function, const SiteTable& sites, const std::set<std::string>& cloned,
                const Clocks& clocks, const InstrumentOptions& options, std::vector<Segment>& segments);

  std::string text();         // of the whole clone, and behind it of the functions that record its mallocs and frees
  std::string declaration();  // its head and ';', for functions that are no kernels
  std::string heap_declarations() const; // of those, once there is the text
  bool strong() const { return strong_; }
  bool textures() const { return textures_; }
  std::uint32_t left_out() const { return left_out_; }
  const std::string& refused() const { return refused_; }  // why the clone must not be used; empty: it may be

 private:
  struct Plan {  // a segment of this function
    std::uint32_t first = 0, last = 0;  // room is taken before statement `first`; valid before statement `last`
    std::uint32_t number = 0;           // of the segment
    bool early = false;                 // it ends before statement `last` stores anything
    // ptxas makes a warp meet for what is .aligned or .sync, and does so as early in a block as nothing holds it up:
    // ahead of the store that makes a segment valid, too. Lanes that had come there would wait for others that still
    // wait for room, and these for a reader who gets no further than that segment. So the warp meets before the room is
    // taken, or once the segment is valid.
    bool meets_before = false;
    enum class After : std::uint8_t { nothing, lanes, warp } after = After::nothing; // who meets
  };

  // instrument_function.cpp
  void plan();
  void plan_block(const Block& block);
  void plan_test(std::uint32_t statement);
  void plan_meetings(std::size_t first_plan, std::uint32_t block_end);
  bool whole_warp(const Instruction& i, std::uint32_t statement) const; // must execute it together
  Function head() const;
  void prologue();
  void declare_registers();
  void load_control(); // of a function that is no kernel
  std::set<unsigned> dropped_widths() const;
  void begin(const Plan& plan);
  void end(const Plan& plan);
  void call(const Instruction& i, std::uint32_t statement);
  bool calls_clone(const Instruction& i) const;
  bool waits(std::uint32_t statement) const; // for other threads: no segment reaches across it
  bool tests(std::uint32_t statement) const; // asks an mbarrier

  // instrument_heap.cpp
  void plan_heap(std::uint32_t statement);
  std::string heap_head(std::uint32_t site) const;
  void heap_function(const Plan& plan, const Slot& slot);

  // instrument_slots.cpp
  // False: the site stores nothing. `at`: where its slot would begin.
  bool slot_of(std::uint32_t statement, std::uint32_t at, Slot& slot, std::uint32_t& bytes);
  bool strong_slot(const Instruction& i, const Site& site, Slot& slot, std::uint32_t& bytes);
  void share_address(const Instruction& i, const Site& site, Slot& slot);
  void before(const Instruction& i, const Slot& slot);
  void instruction(const Instruction& i,
                   const Site& site); // a strong access, through %do_a or %do_s, with its result kept
  void after(const Instruction& i, const Slot& slot);
  // Of %do_s or %do_a, where an instruction finds its address; all ones for lanes without its guard, or without `won`.
  void store_address(const Instruction& i, const Slot& slot, bool narrow, const char* won = nullptr);
  void comes_after_ticket(bool narrow); // %dh_k of the leader: the address depends on it
  void add_nothing(bool narrow); // to the address: zero, which depends on %dh_t1

  // instrument_async.cpp
  bool async_slot(std::uint32_t statement, Slot& slot, std::uint32_t& bytes);
  bool matrix_slot(const Instruction& i, Slot& slot, std::uint32_t& bytes);
  void before_matrix(const Instruction& i, const Slot& slot);
  void before_tensor(const Instruction& i, const Slot& slot);
  void before_mbarrier(const Instruction& i, const Slot& slot);
  void before_bulk(const Instruction& i, const Slot& slot);
  void store_mbarrier(const Instruction& i, const Slot& slot); // its operands
  void before_test(const Instruction& i, const Slot& slot);
  void after_test(const Instruction& i, const Slot& slot, const Plan& plan);
  std::size_t object_operand(const Instruction& i) const; // of an mbarrier's instruction, or a bulk copy's
  void rank_address(); // %dh_s, a shared address of any block: its rank as Slot::ranked has it
  void any_address(const Operand& address, bool shared); // into %dh_a, marked

  // instrument_texture.cpp
  bool texture_slot(std::uint32_t statement, Slot& slot, std::uint32_t& bytes);
  void before_texture(const Instruction& i, const Slot& slot);

  // instrument_slots.cpp
  const Operand* address_of(const Instruction& i) const;
  const Operand* value_of(const Instruction& i) const; // what a store or atomic is given; null: none, or a vector
  const Operand* result_of(const Instruction& i) const; // where a load or atomic puts what it read
  void load_address(const Operand& address, bool narrow, const char* to);
  void mark_space(); // %dh_a: offsets in shared memory get their mark, local memory becomes all ones
  void guard_address(const Instruction& i, bool narrow);
  void load_value(const Operand& value, unsigned bits, const char* to); // 64 bits, zero-extended
  void load_register(const std::string& v, unsigned has, unsigned bits,
                     const char* to); // likewise; `has`: its own bits
  std::string element_name(const Operand& vector, std::size_t n, const Site& site) const;
  std::string whole_vector(const Operand& vector, const Site& site) const;
  void load_digest(const Operand& value, const Site& site); // into %dh_h
  void load_folded(const Operand& value, const Site& site);
  void load_vector_digest(const Operand& value, const Site& site); // likewise, of a strong store
  void store_u32(const Instruction& i, const Operand& value, std::uint32_t at);
  void store_value(const Slot& slot, const Operand& value, const Site& site, std::uint32_t at);
  void store_loaded(const Slot& slot, std::uint32_t at); // %dh_v
  void ticket(bool of_ring, bool late, std::uint32_t at);
  void tickets_after(const Slot& slot); // %dh_t1: zero, once the instruction was performed
  bool narrow_address(const Instruction& i) const; // the operand is a 32-bit register
  unsigned register_bits(const Operand& value) const; // 0: no register

  void put(const std::string& line) { out_ += "\n\t" + line; }
  std::string text_of(const Operand& operand) const;

  const Module& module_;
  const Function& function_;
  const std::vector<std::uint32_t>& site_of_;
  const std::map<std::uint32_t, std::uint32_t>& texels_; // SiteTable::texels
  const std::vector<Site>& sites_;
  const std::set<std::string>& cloned_;
  const Clocks& clocks_;
  const InstrumentOptions& options_;
  std::vector<Segment>& segments_;
  AddressValues values_;
  // Address arrays of the segment that is being planned: by value of the register (or name of the variable), guard,
  // width and space.
  std::map<std::tuple<std::uint64_t, std::string_view, std::uint64_t, bool, bool, Space, bool>,
           std::pair<std::uint32_t, std::int64_t>>
      arrays_;
  Flow flow_;
  const OpenProducts products_;
  std::vector<Plan> plans_;
  std::map<std::uint32_t, Slot> slots_; // by statement
  std::map<std::uint32_t, Plan> tests_; // likewise
  std::map<std::uint32_t, Plan> heap_calls_; // likewise; slots_ has theirs
  std::string out_, refused_;
  std::uint32_t next_call_ = 0, left_out_ = 0;
  bool strong_ = false, textures_ = false;
};

} // namespace deadheat::ptx
