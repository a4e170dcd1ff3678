// The little of an ELF file that is checked before the dynamic loader sees it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "files.h"

namespace tvm_sparse {

// A shared library's table of sections, all of which lie inside the file.
class SharedObject {
 public:
  // Raises an Error if the file is no library for this machine, or a part of it would lie outside.
  explicit SharedObject(const File& file);

  // What binds the library to its manifest, in hexadecimal; empty if there is none.
  std::string signature() const;
  // Where in the file the weights begin and end.
  std::pair<uint64_t, uint64_t> weights() const;

 private:
  struct Section {
    uint64_t address, offset, size;
  };

  void check_range(uint64_t offset, uint64_t size) const;
  std::string read(uint64_t offset, uint64_t size) const;

  const File& file_;
  uint64_t size_;
  std::map<std::string, Section> sections_;
};

}  // namespace tvm_sparse
