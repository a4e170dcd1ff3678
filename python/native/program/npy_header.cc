#include "npy_header.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace npy {
namespace {

constexpr size_t kMostAxes = 64;  // NumPy's own limit

// Raised where the text is none that NumPy writes.
struct Foreign {};

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Header document() {
    Header result;
    std::set<std::string> keys;
    require('{');
    while (!take('}')) {
      std::string key = quoted();
      require(':');
      if (!keys.insert(key).second) throw Foreign();
      if (key == "descr") {
        result.type = quoted();
      } else if (key == "fortran_order") {
        result.columns_first = truth();
      } else if (key == "shape") {
        result.shape = extents();
      } else {
        throw Foreign();
      }
      if (!take(',')) {
        require('}');
        break;
      }
    }
    if (peek() != '\0' || at_ != text_.size() || keys.size() != 3) throw Foreign();
    return result;
  }

 private:
  std::vector<int64_t> extents() {
    std::vector<int64_t> result;
    require('(');
    while (!take(')')) {
      if (result.size() == kMostAxes) throw Foreign();
      result.push_back(integer());
      if (take(',')) continue;
      if (result.size() == 1) throw Foreign();  // a number in brackets
      require(')');
      break;
    }
    return result;
  }

  int64_t integer() {
    peek();
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    auto [stop, failed] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failed != std::errc() || value < 0) throw Foreign();
    at_ += static_cast<size_t>(stop - begin);
    return value;
  }

  bool truth() {
    peek();
    for (bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return value;
    }
    throw Foreign();
  }

  std::string quoted() {
    char quote = take('"') ? '"' : '\'';
    if (quote == '\'') require(quote);
    size_t end = text_.find(quote, at_);
    if (end == std::string::npos) throw Foreign();
    std::string result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }

  bool take(char letter) {
    if (peek() != letter) return false;
    ++at_;
    return true;
  }

  void require(char letter) {
    if (!take(letter)) throw Foreign();
  }

  // The next character that is no blank; zero at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Header> parse_header(const std::string& text) {
  try {
    return Parser(text).document();
  } catch (const Foreign&) {
    return std::nullopt;
  }
}

std::string header_text(const Header& header) {
  std::string result = "{'descr': '" + header.type + "', 'fortran_order': ";
  result += header.columns_first ? "True" : "False";
  result += ", 'shape': (";
  for (size_t axis = 0; axis < header.shape.size(); ++axis) {
    result += (axis ? ", " : "") + std::to_string(header.shape[axis]);
  }
  return result + (header.shape.size() == 1 ? ",), }" : "), }");
}

}  // namespace npy
