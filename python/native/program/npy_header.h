// The header of a .npy file: NumPy's documented literal of a Python dictionary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace npy {

struct Header {
  std::string type;  // the code of its elements, "<f4"
  bool columns_first = false;
  std::vector<int64_t> shape;
};

// None where the text is no such dictionary. Keys may come in any order, as NumPy lets them.
std::optional<Header> parse_header(const std::string& text);

// What NumPy writes, without the padding behind it.
std::string header_text(const Header& header);

}  // namespace npy
