// All that is checked about an artifact before anything of it is opened as a library.
#pragma once

#include <optional>
#include <string>

#include "files.h"
#include "manifest.h"

namespace tvm_sparse {

struct Verified {
  Manifest manifest;
  size_t chosen;  // of its programs, the best for this machine
  File library;
  std::optional<File> section;  // the library with the weights, where that is another
};

// Raises an Error that names the first thing that is wrong.
//
// hashes: whether the weights are compared with their SHA-256, too; all else always is.
// copy: whether the library is read into memory first; the copy is what is checked.
Verified verify(const std::string& directory, bool hashes, bool copy);

}  // namespace tvm_sparse
