// The manifest of an artifact: what it holds, for which machine, and the checksums of it all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json.h"

namespace tvm_sparse {

// Bytes of one element; 0 for a type that no tensor may have.
size_t item_bytes(const std::string& dtype);

// An axis: a length, or the name of a free one.
struct Extent {
  int64_t length = -1;
  std::string symbol;
};

struct TensorSpec {
  std::string name, dtype;
  std::vector<Extent> shape;

  std::string text() const;
};

struct Weight {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0;

  uint64_t nbytes() const;
};

struct FileRecord {
  std::string sha256;
  uint64_t size = 0;
};

struct Target {
  std::string kind, machine, mcpu;
  std::vector<std::string> cpu_features, gpu_archs;
};

// Smallest and largest extent, both included; none for no limit.
using Bounds = std::map<std::string, std::pair<int64_t, std::optional<int64_t>>>;

// The program for one CPU. Its weights lie in the section of the manifest's first library.
struct Code {
  Target target;
  std::string library, code;
  std::vector<Weight> weights;
  // What the library has in its own section, so that no other manifest fits it.
  std::string signature;
};

struct Manifest {
  std::map<std::string, std::string> versions;
  std::vector<TensorSpec> inputs, outputs;
  // By input: whether it may begin on any multiple of the size of its elements.
  std::vector<bool> unaligned;
  Bounds bounds;
  std::map<std::string, FileRecord> files;
  int threads = 0;  // 0 for all physical cores
  // The first one's library has all weights.
  std::vector<Code> programs;

  bool on_gpu() const { return programs.front().target.kind == "cuda"; }
};

// Let through only what a format version that this release knows may hold; raises an Error.
Manifest parse_manifest(const std::string& document, const std::string& where);

}  // namespace tvm_sparse
