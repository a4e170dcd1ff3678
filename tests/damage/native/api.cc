// What a file or a caller hands to the C interface, before any code of an artifact runs:
// api SEED ROUNDS MANIFEST. Prints how many manifests and how many inputs were let through.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "error.h"
#include "extents.h"
#include "inputs.h"
#include "json.h"
#include "manifest.h"
#include "random.h"
#include "sha256.h"
#include "sizes.h"

namespace {

using tvm_sparse::Manifest;
using tvm_sparse::json::Kind;
using tvm_sparse::json::Value;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
const std::vector<int64_t> kExtents{0,
                                    1,
                                    2,
                                    3,
                                    64,
                                    -1,
                                    int64_t{1} << 31,
                                    int64_t{1} << 40,
                                    (int64_t{1} << 56) + 1,
                                    int64_t{1} << 62,
                                    kMost,
                                    -kMost - 1};
const std::vector<std::string> kNumbers{"0",
                                        "-1",
                                        "1",
                                        "7",
                                        "64",
                                        "2147483648",
                                        "-0.0",
                                        "1e999",
                                        "1152921504606846976",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "99999999999999999999999"};
const std::vector<std::string> kTokens{"batch",
                                       "a",
                                       "T.min(",
                                       "T.max(",
                                       "T.",
                                       "(",
                                       ")",
                                       ",",
                                       " + ",
                                       " - ",
                                       " * ",
                                       " // ",
                                       " % ",
                                       "0",
                                       "1",
                                       "3",
                                       "64",
                                       "-1",
                                       "4611686018427387904",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "**",
                                       "\t",
                                       "\xc3\xa4"};
const std::vector<std::string> kWords{"{",
                                      "}",
                                      "[",
                                      "]",
                                      ",",
                                      ":",
                                      "\"",
                                      "\\u",
                                      "\\ud800",
                                      "null",
                                      "1e5",
                                      "-",
                                      "\xff",
                                      std::string(1, '\0'),
                                      std::string(100000, '['),
                                      "9223372036854775808"};

std::string expression(Random& random) {
  std::string text;
  for (uint64_t count = random.below(14) + 1; count; --count) text += random.of(kTokens);
  return text;
}

// Give a random place inside `value` a random value.
void edit(Value* value, Random& random) {
  if (!value->members.empty() && random.below(6)) {
    return edit(&value->members[random.below(value->members.size())].second, random);
  }
  if (!value->items.empty() && random.below(6)) {
    return edit(&value->items[random.below(value->items.size())], random);
  }
  switch (random.below(6)) {
    case 0: *value = {Kind::kNull, "", {}, {}}; break;
    case 1: *value = {Kind::kNumber, random.of(kNumbers), {}, {}}; break;
    case 2: *value = {Kind::kString, expression(random), {}, {}}; break;
    case 3: *value = {Kind::kArray, "", std::vector<Value>(random.below(4), *value), {}}; break;
    case 4: value->items.push_back({Kind::kNumber, random.of(kNumbers), {}, {}}); break;
    default: *value = {Kind::kObject, "", {}, {{"batch", *value}}};
  }
}

// A manifest with edits, under a checksum that fits.
std::string edited(Value body, Random& random) {
  for (uint64_t times = random.below(3) + 1; times; --times) edit(&body, random);
  for (auto member = body.members.begin(); member != body.members.end(); ++member) {
    if (member->first != "checksum") continue;
    body.members.erase(member);
    break;
  }
  std::string sum = tvm_sparse::sha256(tvm_sparse::json::canonical(body));
  body.members.emplace_back("checksum", Value{Kind::kString, sum, {}, {}});
  return tvm_sparse::json::canonical(body);
}

// Tensors of random shapes, in memory that holds them where the elements are few.
bool accepted(const Manifest& manifest, Random& random) {
  static std::vector<char> memory(1 << 22);
  std::vector<std::vector<int64_t>> shapes;
  std::vector<tvm_sparse_tensor> tensors;
  for (const auto& spec : manifest.inputs) {
    std::vector<int64_t> shape;
    for (const auto& extent : spec.shape) {
      bool other = !extent.symbol.empty() || !random.below(9);
      shape.push_back(other ? random.of(kExtents) : extent.length);
    }
    if (!random.below(9)) shape.push_back(1);
    shapes.push_back(shape);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    bool rank = shapes[i].size() == manifest.inputs[i].shape.size();
    auto count = tvm_sparse::elements_of(shapes[i].data(), shapes[i].size());
    if (rank && count && *count * 8 >= memory.size()) return false;
    tensors.push_back({manifest.inputs[i].dtype.c_str(), static_cast<int32_t>(shapes[i].size()),
                       shapes[i].data(), memory.data() + random.below(3)});
  }
  try {
    tvm_sparse::accepted(manifest, tensors.data(), tensors.size());
  } catch (const tvm_sparse::Error&) {
    return false;
  }
  for (const auto& shape : shapes) {
    long double count = 1;
    for (int64_t extent : shape) count *= static_cast<long double>(extent ? extent : 1);
    if (count > static_cast<long double>(tvm_sparse::kMostElements)) std::abort();
  }
  return true;
}

}  // namespace

int main(int, char** words) {
  Random random(std::strtoull(words[1], nullptr, 10));
  std::ifstream file(words[3], std::ios::binary);
  const std::string sound{std::istreambuf_iterator<char>(file), {}};
  const Manifest whole = tvm_sparse::parse_manifest(sound, "manifest");
  const Value body = tvm_sparse::json::parse(sound, "manifest");
  int manifests = 0, inputs = 0;
  for (long round = std::strtol(words[2], nullptr, 10); round; --round) {
    tvm_sparse::evaluate(expression(random), {{"batch", random.of(kExtents)}, {"a", 3}});
    inputs += accepted(whole, random);
    bool bytes = random.below(2);
    std::string text = bytes ? damaged(sound, kWords, random) : edited(body, random);
    try {
      const Manifest found = tvm_sparse::parse_manifest(text, "manifest");
      ++manifests;
      inputs += accepted(found, random);
    } catch (const tvm_sparse::Error&) {
    }
  }
  std::printf("%d %d\n", manifests, inputs);
  return 0;
}
