// Small checks for the values of a manifest; each raises an Error that names the place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "error.h"
#include "json.h"

namespace tvm_sparse {

// A value and where it stands.
struct Field {
  const json::Value& value;
  std::string where;

  Error wrong(const std::string& expected) const {
    return bad_artifact(where, "found " + shown(json::canonical(value)), expected);
  }

  Field at(const std::string& key) const {
    const json::Value* found = value.kind == json::Kind::kObject ? value.find(key) : nullptr;
    if (!found) throw wrong("also the key '" + key + "'");
    return {*found, where + ": " + key};
  }

  bool null() const { return value.kind == json::Kind::kNull; }

  // An object with exactly these keys.
  void keys(const std::vector<const char*>& names) const {
    for (const char* name : names) at(name);
    if (value.members.size() != names.size()) throw wrong("no other keys");
  }

  std::vector<Field> items() const {
    if (value.kind != json::Kind::kArray) throw wrong("an array");
    std::vector<Field> result;
    for (const auto& item : value.items) {
      result.push_back({item, where + "[" + std::to_string(result.size()) + "]"});
    }
    return result;
  }

  std::vector<std::pair<std::string, Field>> members() const {
    if (value.kind != json::Kind::kObject) throw wrong("an object");
    std::vector<std::pair<std::string, Field>> result;
    for (const auto& [name, member] : value.members) {
      result.push_back({name, {member, where + "[" + shown(name) + "]"}});
    }
    return result;
  }

  // Printable and not empty.
  std::string text() const {
    if (value.kind != json::Kind::kString || value.text.empty()) throw wrong("printable text");
    for (unsigned char letter : value.text) {
      if (letter < 0x20 || letter == 0x7F) throw wrong("printable text");
    }
    return value.text;
  }

  int64_t integer(int64_t low, int64_t high) const;
};

}  // namespace tvm_sparse
