// Findings that a user does not want counted: a suppressions file and its application.
//
// One a line; blank lines and lines that begin with # say nothing:
//     race:reduce.cu:41                 a race with this line on either side
//     race:reduce.cu:41 reduce.cu:57    a race between these two lines, in either order
//     race:reduce.cu:41 cudaMemcpyAsync a race between this line and this API call (or a kernel without lines)
//     kernel:softmax*                   a race with this kernel (demangled) on either side
//     stream:cudaMemcpyAsync            a race between operations with this kernel or API call on either side
//     function:*Scatter<*               a race whose sides both lie in this function (demangled), itself inlined or not
//     function:*Load<* with *Store<*    a race with one side in each of the two, in either order
//     repeat:standard.py:*              writes of one value, always the same, from one line to one place
//     unused:rope.py:*                  a read on this line of what the reading threads do not use, against a write
//     proxy:attention.py:*              a cp.async of this line that is complete, and lacks only a proxy fence before
//                                       an access through the asynchronous proxy
//     unwritten:*Merge<*                memory errors: bytes that nobody wrote, read in this function, inlined or not;
//                                       without lines, in this kernel
//     within:libcudnn*                  a possible race between operations of two streams that this library created:
//                                       of opaque kernels, whose footprints may be wider than what they touch
//     code:*match.any.sync.b64 * mbarrier.inval* with *mbarrier.*
//                                       a race of instructions without lines, or that were compiled with -G, whose
//                                       paths match the one and the other glob. A path: the opcodes of the memory and
//                                       synchronization instructions that every thread performs in the function before
//                                       the one, and its own; "[reserved]" where its address is in the shared memory
//                                       that CUDA's libraries have to themselves, "[same]" where both write one value,
//                                       " in " and the kernel (demangled), or the file where it is known
// In a pattern * stands for any text and ? for one character; all else is literal, and the pattern is to match the
// whole name; of functions, of any in the inlining chain, or of one on each way of calls that leads from kernels there.
// A file, a library too, is matched by its path and by every end of the path that follows a '/'; every line of an
// inlining chain counts. A race in lines of a template is suppressed when it is in each kernel that it was seen in.
// Suppressed races stay in the reports, marked; suppressed memory errors are left out, and are counted with their
// pattern.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deadheat/expected.h"
#include "deadheat/race.h"

namespace deadheat::report {

class Suppressions {
 public:
  // From a file. An error names the line that is none of the above.
  static Expected<Suppressions> read(const std::string& path);
  static Expected<Suppressions> parse(std::string_view text, const std::string& path);

  // Marks the races that a pattern matches, each counted as a hit of every pattern that does, and corrects
  // summary.races. Takes out the memory errors that one matches.
  void apply(Analysis& analysis);

  std::vector<std::string> used() const; // patterns with hits: "race:a.cu:7 (file:2) matched 3 races"
  std::vector<std::string> unused() const; // patterns without a hit: "kernel:softmax* (file:3)"
  struct Pattern {
    enum class Kind : std::uint8_t {
      race,
      kernel,
      stream,
      function,
      repeat,
      unused,
      proxy,
      unwritten,
      within,
      code
    } kind = Kind::race;
    std::string glob;
    std::string text; // the line as written
    std::string where; // "file:line" of it
    std::uint64_t hits = 0; // races, or memory errors, that it matched
  };
  const std::vector<Pattern>& patterns() const { return patterns_; }

 private:
  std::vector<Pattern> patterns_;
};

// A suppressions file that matches every race of the analysis that is not suppressed yet, each entry under a comment
// that says what it stands for.
std::string suppressions_for(const Analysis& analysis);

// Where a race is suppressed in some of its codes alone: their kernels, "KERNEL", or "KERNEL with KERNEL" where the
// sides are in two; each once, in order.
std::vector<std::string> suppressed_in(const Race& race);

// Does `pattern` match the whole of `name`?
bool glob_matches(std::string_view pattern, std::string_view name);

} // namespace deadheat::report
