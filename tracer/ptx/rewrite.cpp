#include "tracer/ptx/rewrite.h"

#include <utility>

#include "tracer/ptx/parse.h"

namespace deadheat::ptx {

std::string print_with(const Module& module, const std::string& added) {
  std::size_t last = 0;
  for (std::size_t p = 0; p < module.pieces.size(); ++p) {
    if (module.pieces[p].function >= 0) last = p;
  }
  std::string text;
  for (std::size_t p = 0; p < module.pieces.size(); ++p) {
    const Module::Piece& piece = module.pieces[p];
    for (const Token& token : piece.tokens) {
      text += token.trivia;
      text += token.text;
    }
    text += piece.text;
    if (piece.function >= 0) text += print(module.functions[std::size_t(piece.function)]);
    if (p == last) text += added;
  }
  for (const Token& token : module.end) {
    text += token.trivia;
    text += token.text;
  }
  return text;
}

Function clone_head(const Function& original, std::string name) {
  Function f;
  f.name = std::move(name);
  f.entry = original.entry;
  f.linkage = original.entry ? Variable::Linkage::visible : Variable::Linkage::none;
  f.results = original.results;
  f.params = original.params;
  f.maxntid = original.maxntid;
  f.reqntid = original.reqntid;
  f.reqnctapercluster = original.reqnctapercluster;
  f.maxclusterrank = original.maxclusterrank;
  f.explicitcluster = original.explicitcluster;
  f.noreturn = original.noreturn;
  // Whatever block the original may be launched with, registers must be found for.
  if (f.entry && !f.maxntid && !f.reqntid) f.maxntid = Dim3{1024, 1, 1};
  return f;
}

std::string linear_indices(const std::string& block, const std::string& thread, const std::string& scratch_0,
                           const std::string& scratch_1) {
  std::string text;
  auto index = [&](const std::string& to, const std::string& at, const std::string& extent) {
    text += "\n\tmov.u32 " + scratch_0 + ", %" + at + ".z;";
    for (const char* axis : {".y", ".x"}) {
      text += "\n\tmov.u32 " + scratch_1 + ", %" + extent + axis + ";";
      text += "\n\tmul.lo.u32 " + scratch_0 + ", " + scratch_0 + ", " + scratch_1 + ";";
      text += "\n\tmov.u32 " + scratch_1 + ", %" + at + axis + ";";
      text += "\n\tadd.u32 " + (axis[1] == 'x' ? to : scratch_0) + ", " + scratch_0 + ", " + scratch_1 + ";";
    }
  };
  index(block, "ctaid", "nctaid");
  index(thread, "tid", "ntid");
  return text;
}

}  // namespace deadheat::ptx
