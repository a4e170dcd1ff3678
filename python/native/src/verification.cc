#include "verification.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "elf.h"
#include "engine.h"
#include "error.h"
#include "host.h"

namespace tvm_sparse {
namespace {

constexpr uint64_t kManifestLimit = 64 << 20;
constexpr const char* kManifest = "manifest.json";

Manifest read_manifest(const std::string& directory) {
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw bad_artifact(directory, exists(directory) ? "not a directory" : "there is no such directory",
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

void check_host(const Target& target, const std::string& directory) {
  if (target.kind != "llvm" || !target.gpu_archs.empty()) {
    throw bad_artifact(directory, "made for " + shown(target.kind), "code for a CPU (llvm)",
                       "open it from Python, which runs code for GPUs too");
  }
  if (target.machine != machine()) {
    throw bad_artifact(directory,
                       "made for " + shown(target.machine) + ", this machine is " + machine(),
                       "the same architecture", "compile for this machine");
  }
  std::set<std::string> here = cpu_features();
  std::string missing;
  for (const std::string& feature : target.cpu_features) {
    if (!here.count(feature)) missing += (missing.empty() ? "" : ", ") + feature;
  }
  if (!missing.empty()) {
    throw bad_artifact(directory,
                       "made for the CPU " + shown(target.mcpu) + ", this one lacks " + missing,
                       "every instruction set it was compiled for",
                       "compile for this CPU or for a smaller one such as x86-64-v3");
  }
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

void check_library(const Manifest& manifest, const File& file) {
  SharedObject library(file);
  auto [begin, end] = library.weights();
  if (file.sha256({{0, begin}, {end, file.size()}}) != manifest.code) {
    throw bad_artifact(file.path(), "its code does not match its SHA-256");
  }
  if (library.signature() != manifest.signature) {
    throw bad_artifact(file.path(), "made for another manifest", "the one it was exported with");
  }
  for (const Weight& weight : manifest.weights) {
    if (weight.offset + weight.nbytes() > end - begin) {
      throw bad_artifact(file.path() + ": weight " + weight.name,
                         "ends at " + std::to_string(weight.offset + weight.nbytes()),
                         "a section of " + std::to_string(end - begin) + " bytes");
    }
  }
}

// Signatures are checked from Python only: where they are asked for, nothing is opened without.
void check_policy(const std::string& directory) {
  if (!std::getenv("TVM_SPARSE_TRUSTED")) return;
  throw bad_artifact(directory, "TVM_SPARSE_TRUSTED asks for a signature, which is checked from Python only",
                     "that it is not set", "open it from Python, or check the signature before");
}

}  // namespace

Verified verify(const std::string& directory, bool hashes, bool copy) {
  check_policy(directory);
  Manifest manifest = read_manifest(directory);
  check_versions(manifest, directory);
  check_host(manifest.target, directory);
  check_names(manifest, directory);
  for (const auto& [name, record] : manifest.files) {
    if (name != manifest.library) check_file(File(directory + "/" + name), record, hashes);
  }
  const FileRecord& expected = manifest.files.at(manifest.library);
  File library(directory + "/" + manifest.library);
  check_size(library, expected);
  if (!copy) {
    check_file(library, expected, hashes);
    check_library(manifest, library);
    return {std::move(manifest), std::move(library)};
  }
  File held = library.in_memory();
  check_file(held, expected, hashes);
  check_library(manifest, held);
  return {std::move(manifest), std::move(held)};
}

}  // namespace tvm_sparse
