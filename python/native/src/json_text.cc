// The canonical text of JSON.
#include <algorithm>

#include "json.h"
#include "unicode.h"

namespace tvm_sparse::json {
namespace {

void write(const Value& value, std::string* out);

void write_object(const Value& value, std::string* out) {
  std::vector<const std::pair<std::string, Value>*> sorted;
  for (const auto& member : value.members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  *out += '{';
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i) *out += ',';
    append_quoted(out, sorted[i]->first);
    *out += ':';
    write(sorted[i]->second, out);
  }
  *out += '}';
}

void write(const Value& value, std::string* out) {
  switch (value.kind) {
    case Kind::kNull: *out += "null"; break;
    case Kind::kFalse: *out += "false"; break;
    case Kind::kTrue: *out += "true"; break;
    case Kind::kNumber: *out += value.text; break;
    case Kind::kString: append_quoted(out, value.text); break;
    case Kind::kArray:
      *out += '[';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i) *out += ',';
        write(value.items[i], out);
      }
      *out += ']';
      break;
    case Kind::kObject: write_object(value, out);
  }
}

}  // namespace

std::string canonical(const Value& value) {
  std::string result;
  write(value, &result);
  return result;
}

}  // namespace tvm_sparse::json
