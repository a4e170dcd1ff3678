// Files opened once: what is checked through a descriptor is what is read and run through it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tvm_sparse {

// An open regular file; closes itself.
class File {
 public:
  // Never follows a link nor waits for a pipe; raises an Error.
  explicit File(const std::string& path);
  File(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  uint64_t size() const;
  // Exactly these bytes; raises an Error if the file ends before.
  std::string read(uint64_t offset, uint64_t size) const;
  // Of the whole file, or of the ranges (begin, end) one after another.
  std::string sha256(const std::vector<std::pair<uint64_t, uint64_t>>& ranges = {}) const;
  // A copy in memory that nobody can change.
  File in_memory() const;
  // A name under which the dynamic loader opens this very file, and no other that it has already.
  std::string loadable_name() const;

 private:
  File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

// The names in a directory, in order; raises an Error if it cannot be read.
std::vector<std::string> names_in(const std::string& directory);

bool exists(const std::string& path);

}  // namespace tvm_sparse
