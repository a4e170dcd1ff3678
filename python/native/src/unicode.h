// UTF-8, and text as ASCII.
#pragma once

#include <cstdint>
#include <string>

namespace tvm_sparse {

// Strict: no surrogates, no longer forms, nothing beyond U+10FFFF.
bool is_utf8(const std::string& text);

void append_utf8(std::string* out, uint32_t code);

// Append `text` as a string of JSON in ASCII; it must be UTF-8.
void append_quoted(std::string* out, const std::string& text);

}  // namespace tvm_sparse
