#include "verification.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>

#include "elf.h"
#include "engine.h"
#include "error.h"
#include "gpu.h"
#include "host.h"

namespace tvm_sparse {
namespace {

constexpr uint64_t kManifestLimit = 64 << 20;
constexpr const char* kManifest = "manifest.json";

Manifest read_manifest(const std::string& directory) {
  struct stat status{};
  if (stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw bad_artifact(directory,
                       exists(directory) ? "not a directory" : "there is no such directory",
                       "an artifact", "name a directory that library.export() wrote");
  }
  File file(directory + "/" + kManifest);
  if (file.size() > kManifestLimit) {
    throw bad_artifact(file.path(), std::to_string(file.size()) + " bytes", "a manifest");
  }
  return parse_manifest(file.read(0, file.size()), file.path());
}

void check_versions(const Manifest& manifest, const std::string& directory) {
  for (const auto& [key, installed] : wheel_versions()) {
    const std::string& made = manifest.versions.at(key.substr(key.find('/') + 1));
    if (installed == made) continue;
    std::string name = key.substr(0, key.find('/'));
    throw bad_artifact(directory, "made with " + name + " " + made + ", here it is " + installed,
                       "the same version",
                       "pip install " + name + "==" + made + ", or export it again");
  }
}

std::string missing(const Target& target, const std::set<std::string>& here) {
  std::string result;
  for (const std::string& feature : target.cpu_features) {
    if (!here.count(feature)) result += (result.empty() ? "" : ", ") + feature;
  }
  return result;
}

void check_host(const Target& target, const std::set<std::string>& here,
                const std::string& directory) {
  bool gpu = target.kind == "cuda";
  if ((!gpu && target.kind != "llvm") || gpu == target.gpu_archs.empty()) {
    throw bad_artifact(directory, "made for " + shown(target.kind),
                       "a CPU (llvm) or NVIDIA GPU (cuda)");
  }
  if (target.machine != machine()) {
    throw bad_artifact(directory,
                       "made for " + shown(target.machine) + ", this machine is " + machine(),
                       "the same architecture", "compile for this machine");
  }
  std::string lacking = missing(target, here);
  if (lacking.empty()) return;
  throw bad_artifact(directory,
                     "made for the CPU " + shown(target.mcpu) + ", this one lacks " + lacking,
                     "every instruction set it was compiled for",
                     "compile for this CPU or for a smaller one such as x86-64-v3");
}

// The program with the most instruction sets that this machine has all of; of several for GPUs the
// best for the one that is here.
size_t best_program(const std::vector<Code>& programs, const std::string& directory) {
  std::vector<size_t> order(programs.size());
  std::iota(order.begin(), order.end(), 0);
  auto count = [&](size_t i) { return programs[i].target.cpu_features.size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return count(a) < count(b); });
  std::set<std::string> here = cpu_features();
  check_host(programs[order.front()].target, here, directory);
  std::vector<size_t> fitting;
  std::vector<std::vector<std::string>> archs;
  for (size_t i : order) {
    if (!missing(programs[i].target, here).empty()) continue;
    fitting.push_back(i);
    archs.push_back(programs[i].target.gpu_archs);
  }
  if (programs[fitting.front()].target.kind != "cuda") return fitting.back();
  return fitting.size() > 1 ? fitting[best_for_gpu(archs, directory)] : fitting.front();
}

void check_names(const Manifest& manifest, const std::string& directory) {
  std::set<std::string> present;
  for (const std::string& name : names_in(directory)) present.insert(name);
  present.erase(kManifest);
  present.erase("manifest.sig");
  for (const auto& [name, record] : manifest.files) {
    if (!present.erase(name)) {
      throw bad_artifact(directory, "the file " + shown(name) + " is missing");
    }
  }
  if (!present.empty()) {
    throw bad_artifact(directory, "the file " + shown(*present.begin()) + " does not belong to it",
                       "only manifest.json and the files it lists", "remove it");
  }
}

void check_size(const File& file, const FileRecord& expected) {
  if (file.size() == expected.size) return;
  throw bad_artifact(file.path(), std::to_string(file.size()) + " bytes",
                     std::to_string(expected.size) + " bytes");
}

void check_file(const File& file, const FileRecord& expected, bool hashes) {
  check_size(file, expected);
  if (hashes && file.sha256() != expected.sha256) {
    throw bad_artifact(file.path(), "its content does not match its SHA-256");
  }
}

void check_library(const Code& program, const File& file) {
  SharedObject library(file);
  auto [begin, end] = library.weights();
  if (file.sha256({{0, begin}, {end, file.size()}}) != program.code) {
    throw bad_artifact(file.path(), "its code does not match its SHA-256");
  }
  if (library.signature() != program.signature) {
    throw bad_artifact(file.path(), "made for another manifest", "the one it was exported with");
  }
}

void check_weights(const Code& program, const File& file) {
  auto [begin, end] = SharedObject(file).weights();
  for (const Weight& weight : program.weights) {
    if (weight.offset + weight.nbytes() <= end - begin) continue;
    throw bad_artifact(file.path() + ": weight " + weight.name,
                       "ends at " + std::to_string(weight.offset + weight.nbytes()),
                       "a section of " + std::to_string(end - begin) + " bytes");
  }
}

// The library of a program, after every check of it.
File checked(const Code& program, const FileRecord& expected, const std::string& directory,
             bool hashes, bool copy) {
  File file(directory + "/" + program.library);
  check_size(file, expected);
  File held = copy ? file.in_memory() : std::move(file);
  check_file(held, expected, hashes);
  check_library(program, held);
  return held;
}

// Signatures are checked from Python only: where they are asked for, nothing is opened without.
void check_policy(const std::string& directory) {
  if (!std::getenv("TVM_SPARSE_TRUSTED")) return;
  throw bad_artifact(directory,
                     "TVM_SPARSE_TRUSTED asks for a signature, which is checked from Python only",
                     "that it is not set", "open it from Python, or check the signature before");
}

}  // namespace

Verified verify(const std::string& directory, bool hashes, bool copy) {
  check_policy(directory);
  Manifest manifest = read_manifest(directory);
  check_versions(manifest, directory);
  size_t chosen = best_program(manifest.programs, directory);
  const Code &first = manifest.programs.front(), &best = manifest.programs[chosen];
  check_names(manifest, directory);
  for (const auto& [name, record] : manifest.files) {
    if (name == first.library || name == best.library) continue;
    check_file(File(directory + "/" + name), record, hashes);
  }
  File library = checked(best, manifest.files.at(best.library), directory, hashes, copy);
  std::optional<File> section;
  if (chosen) section = checked(first, manifest.files.at(first.library), directory, hashes, copy);
  check_weights(best, section ? *section : library);
  return {std::move(manifest), chosen, std::move(library), std::move(section)};
}

}  // namespace tvm_sparse
