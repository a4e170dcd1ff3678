#include "manifest.h"

#include <charconv>
#include <limits>

#include "fields.h"
#include "sha256.h"
#include "sizes.h"

namespace tvm_sparse {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr uint64_t kAlignment = 64;

std::string dtype(const Field& field) {
  std::string name = field.text();
  if (!item_bytes(name)) throw field.wrong("a type that tensors may have");
  return name;
}

std::vector<std::string> texts(const Field& field) {
  std::vector<std::string> result;
  for (const Field& item : field.items()) result.push_back(item.text());
  return result;
}

std::string plain_name(const Field& field, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name == "manifest.json" ||
      name == "manifest.sig" || name.find_first_of("/\\") != std::string::npos) {
    throw bad_artifact(field.where, "the path " + shown(name) + " leaves the directory",
                       "the plain name of a file inside it", "do not load this artifact");
  }
  return name;
}

std::string digest(const Field& field) {
  std::string text = field.text();
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw field.wrong("64 hexadecimal digits");
  }
  return text;
}

void check_size(const Field& field, const std::vector<int64_t>& extents) {
  if (!elements_of(extents.data(), extents.size())) {
    throw field.wrong("a shape that fits into memory");
  }
}

std::vector<TensorSpec> specs(const Field& field) {
  std::vector<TensorSpec> result;
  for (const Field& item : field.items()) {
    item.keys({"name", "shape", "dtype"});
    TensorSpec spec{item.at("name").text(), dtype(item.at("dtype")), {}};
    std::vector<int64_t> fixed;
    for (const Field& axis : item.at("shape").items()) {
      bool symbol = axis.value.kind == json::Kind::kString;
      if (!symbol) fixed.push_back(axis.integer(0, kMost));
      spec.shape.push_back(symbol ? Extent{-1, axis.text()} : Extent{fixed.back(), ""});
    }
    check_size(item.at("shape"), fixed);
    result.push_back(std::move(spec));
  }
  return result;
}

std::vector<bool> unaligned(const Field& body, size_t inputs) {
  std::vector<bool> result(inputs);
  if (!body.value.find("unaligned")) return result;
  int64_t least = 0;
  for (const Field& item : body.at("unaligned").items()) {
    int64_t number = item.integer(least, static_cast<int64_t>(inputs) - 1);
    result[static_cast<size_t>(number)] = true;
    least = number + 1;
  }
  return result;
}

Target target(const Field& field) {
  field.keys({"kind", "machine", "mcpu", "cpu_features", "gpu_archs"});
  return {field.at("kind").text(), field.at("machine").text(), field.at("mcpu").text(),
          texts(field.at("cpu_features")), texts(field.at("gpu_archs"))};
}

std::vector<Weight> weights(const Field& field) {
  std::vector<Weight> result;
  for (const Field& item : field.items()) {
    item.keys({"name", "dtype", "shape", "offset"});
    Weight weight{item.at("name").text(), dtype(item.at("dtype")), {}, 0};
    for (const Field& axis : item.at("shape").items()) {
      weight.shape.push_back(axis.integer(0, kMost));
    }
    check_size(item.at("shape"), weight.shape);
    weight.offset = static_cast<uint64_t>(item.at("offset").integer(0, int64_t{1} << 60));
    if (weight.offset % kAlignment) throw item.at("offset").wrong("a multiple of 64");
    result.push_back(std::move(weight));
  }
  return result;
}

// Refuse tensors that overlap or are listed twice.
void check_order(const Field& field, const std::vector<Weight>& weights) {
  std::map<std::string, int> names;
  uint64_t end = 0;
  for (const Weight& weight : weights) {
    if (weight.offset < end) throw field.wrong(weight.name + " at least at " + std::to_string(end));
    if (names[weight.name]++) throw field.wrong(weight.name + " once");
    end = weight.offset + weight.nbytes();
  }
}

Bounds bounds(const Field& field) {
  Bounds result;
  for (const auto& [name, pair] : field.members()) {
    auto ends = pair.items();
    if (ends.size() != 2) throw pair.wrong("two integers in order");
    int64_t low = ends[0].integer(0, kMost);
    std::optional<int64_t> high;
    if (!ends[1].null()) high = ends[1].integer(low, kMost);
    result[name] = {low, high};
  }
  return result;
}

std::map<std::string, FileRecord> files(const Field& field) {
  std::map<std::string, FileRecord> result;
  for (const auto& [name, record] : field.members()) {
    record.keys({"sha256", "size"});
    result[plain_name(record, name)] = {digest(record.at("sha256")),
                                        static_cast<uint64_t>(record.at("size").integer(0, kMost))};
  }
  return result;
}

// The checksum of all that the code of `program` was made for.
std::string signature(const Field& body, const Field& program) {
  json::Value bound{json::Kind::kObject, "", {}, {}};
  for (const char* key : {"format_version", "versions", "inputs", "outputs", "bounds"}) {
    bound.members.emplace_back(key, body.at(key).value);
  }
  // What only newer formats have. Tensors are passed one by one here, so how they are nested is
  // only checked for damage.
  for (const char* key : {"structure", "unaligned"}) {
    if (const json::Value* found = body.value.find(key)) bound.members.emplace_back(key, *found);
  }
  for (const char* key : {"target", "weights"}) {
    bound.members.emplace_back(key, program.at(key).value);
  }
  return sha256(json::canonical(bound));
}

Code code(const Field& body, const Field& program) {
  Code result{target(program.at("target")),
              plain_name(program.at("library"), program.at("library").text()),
              digest(program.at("code")), weights(program.at("weights")), signature(body, program)};
  Field record = body.at("files");
  const json::Value* found = record.value.find(result.library);
  if (!found ||
      result.library !=
          "model-" + digest(Field{*found, record.where}.at("sha256")).substr(0, 16) + ".so") {
    throw program.at("library").wrong("a library named after its checksum");
  }
  return result;
}

void check_decisions(const Field& program) {
  if (!program.value.find("decisions")) return;
  for (const Field& decision : program.at("decisions").items()) decision.members();
}

std::vector<Code> programs(const Field& body) {
  std::vector<Code> result{code(body, body)};
  check_order(body.at("weights"), result.front().weights);
  if (!body.value.find("alternatives")) return result;
  std::vector<const char*> keys{"target", "library", "code", "weights"};
  if (body.at("format_version").value.text >= "6") keys.push_back("decisions");
  for (const Field& item : body.at("alternatives").items()) {
    item.keys(keys);
    check_decisions(item);
    result.push_back(code(body, item));
  }
  return result;
}

void check_format(const Field& body) {
  const json::Value* format = body.value.find("format");
  if (!format || format->text != "tvm-sparse artifact") {
    throw bad_artifact(body.where, "the format is another", "'tvm-sparse artifact'",
                       "name a directory that library.export() wrote");
  }
  const json::Value* version = body.value.find("format_version");
  bool known = version && version->kind == json::Kind::kNumber && version->text.size() == 1 &&
               version->text >= "2" && version->text <= "7";
  if (!known) {
    throw bad_artifact(body.where,
                       "format version " + (version ? json::canonical(*version) : "none"), "2 to 7",
                       "install the release of tvm-sparse that wrote it, or export it again");
  }
}

// Take the checksum out of the body and compare it with what is left.
void check_checksum(json::Value* body, const std::string& where) {
  std::string found;
  for (auto member = body->members.begin(); member != body->members.end(); ++member) {
    if (member->first != "checksum") continue;
    found = member->second.text;
    body->members.erase(member);
    break;
  }
  if (found != sha256(json::canonical(*body))) {
    throw bad_artifact(where, "its content does not match its own checksum");
  }
}

}  // namespace

int64_t Field::integer(int64_t low, int64_t high) const {
  int64_t result = 0;
  const char *begin = value.text.data(), *end = begin + value.text.size();
  auto [stop, failed] = std::from_chars(begin, end, result);
  bool sound = value.kind == json::Kind::kNumber && failed == std::errc() && stop == end;
  if (!sound || result < low || result > high) {
    throw wrong("an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return result;
}

Manifest parse_manifest(const std::string& document, const std::string& where) {
  json::Value value = json::parse(document, where);
  Field body{value, where};
  check_format(body);
  check_checksum(&value, where);
  std::vector<const char*> keys{"format",  "format_version", "versions", "target", "inputs",
                                "outputs", "weights",        "library",  "code",   "files",
                                "bounds",  "threads",        "decisions"};
  const std::string& format = body.at("format_version").value.text;
  if (format != "2") keys.push_back("alternatives");
  if (format >= "4") keys.push_back("structure");  // one digit: compared as a number
  if (format >= "5") keys.push_back("unaligned");
  if (format >= "7") keys.push_back("ranges");
  body.keys(keys);
  Manifest result;
  body.at("versions").keys({"tvm", "tvm_ffi", "tvm_sparse"});
  for (const auto& [name, version] : body.at("versions").members()) {
    result.versions[name] = version.text();
  }
  result.inputs = specs(body.at("inputs"));
  result.outputs = specs(body.at("outputs"));
  result.unaligned = unaligned(body, result.inputs.size());
  result.bounds = bounds(body.at("bounds"));
  result.files = files(body.at("files"));
  if (!body.at("threads").null()) {
    result.threads = static_cast<int>(body.at("threads").integer(1, 4096));
  }
  check_decisions(body);
  if (format >= "7") {
    for (const Field& phrase : body.at("ranges").items()) phrase.text();
  }
  result.programs = programs(body);
  return result;
}

}  // namespace tvm_sparse
