// Matrix instructions as tensor.h describes them.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "deadheat/ptx.h"
#include "replay/engine/tensor.h"

namespace deadheat::engine {

// Fills in `op`; why it cannot run otherwise. For mma, wmma, ldmatrix, stmatrix and movmatrix.
std::string describe_tensor(const ptx::Instruction& instruction, TensorOp& op);

std::optional<TensorType> tensor_type(ptx::Type type); // null: not one of elements

// An access that is also a rendezvous of the warp: loads and stores of matrices, by single lanes, and wgmma.mma_async.
bool is_matrix_access(const ptx::Instruction& instruction);

}  // namespace deadheat::engine
