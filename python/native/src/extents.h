// Extents of dynamic shapes: names, their bounds, and arithmetic over them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tvm_sparse {

using Dims = std::map<std::string, int64_t>;

// Whether an extent is a lone name, which its first use binds.
bool is_name(const std::string& extent);

// The value of an extent such as "batch * 2"; none where that cannot be told. What is beyond all
// integers is the largest of them, which no tensor has.
std::optional<int64_t> evaluate(const std::string& extent, const Dims& dims);

}  // namespace tvm_sparse
