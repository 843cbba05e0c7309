#include "tracer/ptx/rewrite.h"

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
