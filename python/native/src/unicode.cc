#include "unicode.h"

#include <cstdio>

#include "error.h"

namespace tvm_sparse {
namespace {

// The code point that begins at `at`, which moves behind it; -1 if there is none.
int64_t next_code(const std::string& text, size_t* at) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  uint32_t first = byte(*at);
  if (first < 0x80) {
    ++*at;
    return first;
  }
  int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4) return -1;
  int64_t code = first & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if ((byte(*at + i) & 0xC0) != 0x80) return -1;
    code = code << 6 | (byte(*at + i) & 0x3F);
  }
  static const int64_t least[] = {0, 0x80, 0x800, 0x10000};
  if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return -1;
  *at += more + 1;
  return code;
}

void append_escaped(std::string* out, uint32_t unit) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", unit);
  *out += buffer;
}

}  // namespace

bool is_utf8(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    if (next_code(text, &at) < 0) return false;
  }
  return true;
}

void append_utf8(std::string* out, uint32_t code) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const int marks[] = {0, 0xC0, 0xE0, 0xF0};
  *out += static_cast<char>(marks[more] | code >> (6 * more));
  while (more--) *out += static_cast<char>(0x80 | (code >> (6 * more) & 0x3F));
}

void append_quoted(std::string* out, const std::string& text) {
  static const std::string special = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
  *out += '"';
  for (size_t at = 0; at < text.size();) {
    uint32_t code = static_cast<uint32_t>(next_code(text, &at));
    size_t index = code < 0x80 ? special.find(static_cast<char>(code)) : std::string::npos;
    if (index != std::string::npos) {
      *out += '\\';
      *out += letters[index];
    } else if (code >= 0x20 && code < 0x7F) {
      *out += static_cast<char>(code);
    } else if (code < 0x10000) {
      append_escaped(out, code);
    } else {
      append_escaped(out, 0xD800 + ((code - 0x10000) >> 10));
      append_escaped(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  *out += '"';
}

std::string shown(const std::string& text, size_t limit) {
  std::string result = "'";
  for (unsigned char letter : text) {
    char buffer[8];
    bool plain = letter >= 0x20 && letter < 0x7F && letter != '\\' && letter != '\'';
    std::snprintf(buffer, sizeof buffer, plain ? "%c" : "\\x%02x", letter);
    result += buffer;
  }
  result += '\'';
  return result.size() <= limit ? result : result.substr(0, limit - 3) + "...";
}

}  // namespace tvm_sparse
