// Extents of dynamic shapes: names, their bounds, and arithmetic over them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tvm_sparse {

using Dims = std::map<std::string, int64_t>;

// Whether an extent is a lone name, which its first use binds.
bool is_name(const std::string& extent);

// The names in an extent, each once.
std::vector<std::string> names(const std::string& extent);

// Binds the name of an extent, a lone one or a multiple such as "2 * h + 1", by its length. A name
// that is known keeps its value. Of what has no whole solution the next lower one is bound; then,
// what the length has to be is returned, else nothing.
std::string bind(const std::string& extent, int64_t length, Dims* dims);

// The value of an extent such as "batch * 2"; none where that cannot be told. What is beyond all
// integers is the largest of them, which no tensor has.
std::optional<int64_t> evaluate(const std::string& extent, const Dims& dims);

}  // namespace tvm_sparse
