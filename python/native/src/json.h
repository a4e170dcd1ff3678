// JSON that nobody has to be trusted to have written: strict, no key twice, no deep nesting.
//
// A manifest's checksums are over its canonical text, so numbers keep the text that they were
// written with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tvm_sparse::json {

enum class Kind { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

struct Value {
  Kind kind = Kind::kNull;
  std::string text;  // a number as it was written, a string in UTF-8
  std::vector<Value> items;
  std::vector<std::pair<std::string, Value>> members;

  // The member with this name, null if there is none.
  const Value* find(const std::string& name) const;
};

// Raises an Error that begins with `where`.
Value parse(const std::string& document, const std::string& where);

// Without blanks, keys in order, all but ASCII escaped: what Python's json.dumps makes with
// sort_keys and the shortest separators.
std::string canonical(const Value& value);

}  // namespace tvm_sparse::json
