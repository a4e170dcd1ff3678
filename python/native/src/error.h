// Errors that a user can act on: where, what was found, what was expected, what to do.
#pragma once

#include <stdexcept>
#include <string>

#include "tvm_sparse/runtime.h"

namespace tvm_sparse {

class Error : public std::runtime_error {
 public:
  Error(tvm_sparse_status status, const std::string& where, const std::string& found,
        const std::string& expected = "", const std::string& todo = "")
      : std::runtime_error(where + ": " + found +
                           (expected.empty() ? "" : "; expected " + expected) +
                           (todo.empty() ? "" : "; " + todo) + "."),
        status_(status) {}

  tvm_sparse_status status() const { return status_; }

 private:
  tvm_sparse_status status_;
};

constexpr const char* kDamaged = "the artifact is damaged or was edited: export it again";

inline Error bad_artifact(const std::string& where, const std::string& found,
                          const std::string& expected = "", const std::string& todo = kDamaged) {
  return Error(TVM_SPARSE_BAD_ARTIFACT, where, found, expected, todo);
}

// Text as short ASCII that any terminal can print.
std::string shown(const std::string& text, size_t limit = 60);

}  // namespace tvm_sparse
