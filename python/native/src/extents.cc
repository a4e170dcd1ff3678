#include "extents.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

namespace tvm_sparse {
namespace {

constexpr size_t kLongest = 200;

// Raised where an extent cannot be told: another grammar, an unknown name, a division by zero.
struct Unknown {};

// Raised where it can be told, but is beyond all integers.
struct TooLarge {};

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

using Overflows = bool (*)(int64_t, int64_t, int64_t*);

int64_t checked(Overflows operation, int64_t a, int64_t b) {
  int64_t result = 0;
  if (operation(a, b, &result)) throw TooLarge();
  return result;
}

int64_t sum_of(int64_t a, int64_t b) {
  return checked([](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); }, a, b);
}

int64_t difference(int64_t a, int64_t b) {
  return checked([](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); }, a, b);
}

int64_t product_of(int64_t a, int64_t b) {
  return checked([](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); }, a, b);
}

int64_t floor_divided(int64_t a, int64_t b) {
  if (b == 0) throw Unknown();
  if (a == kLeast && b == -1) throw TooLarge();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Sums of products of names, numbers, brackets and calls such as T.min(a, b).
class Evaluator {
 public:
  Evaluator(const std::string& text, const Dims& dims) : text_(text), dims_(dims) {}

  int64_t whole() {
    int64_t value = sum();
    if (peek() != '\0') throw Unknown();
    return value;
  }

 private:
  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (take("+")) {
        value = sum_of(value, product());
      } else if (take("-")) {
        value = difference(value, product());
      } else {
        return value;
      }
    }
  }

  int64_t product() {
    int64_t value = atom();
    for (;;) {
      if (take("*")) {
        value = product_of(value, atom());
      } else if (take("//")) {
        value = floor_divided(value, atom());
      } else if (take("%")) {
        int64_t by = atom();
        value = difference(value, product_of(floor_divided(value, by), by));
      } else {
        return value;
      }
    }
  }

  int64_t atom() {
    if (take("(")) {
      int64_t value = sum();
      require(")");
      return value;
    }
    if (std::isdigit(peek())) return number();
    std::string name = word();
    if (take(".")) {
      std::string method = word();
      require("(");
      int64_t left = sum();
      require(",");
      int64_t right = sum();
      require(")");
      if (method == "min") return std::min(left, right);
      if (method == "max") return std::max(left, right);
      throw Unknown();
    }
    auto found = dims_.find(name);
    if (found == dims_.end()) throw Unknown();
    return found->second;
  }

  int64_t number() {
    int64_t value = 0;
    auto [stop, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failed == std::errc::result_out_of_range) throw TooLarge();
    if (failed != std::errc()) throw Unknown();
    at_ = static_cast<size_t>(stop - text_.data());
    return value;
  }

  std::string word() {
    peek();
    size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(at(at_)) || text_[at_] == '_')) ++at_;
    if (begin == at_) throw Unknown();
    return text_.substr(begin, at_ - begin);
  }

  bool take(const std::string& token) {
    peek();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }

  void require(const std::string& token) {
    if (!take(token)) throw Unknown();
  }

  unsigned char at(size_t i) const { return static_cast<unsigned char>(text_[i]); }

  // The next character that is no blank; zero at the end.
  unsigned char peek() {
    while (at_ < text_.size() && std::isspace(at(at_))) ++at_;
    return at_ < text_.size() ? at(at_) : '\0';
  }

  const std::string& text_;
  const Dims& dims_;
  size_t at_ = 0;
};

}  // namespace

bool is_name(const std::string& extent) {
  if (extent.empty() || std::isdigit(static_cast<unsigned char>(extent[0]))) return false;
  return std::all_of(extent.begin(), extent.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::vector<std::string> names(const std::string& extent) {
  std::vector<std::string> found;
  if (extent.size() > kLongest) return found;
  auto in_word = [&](size_t i) {
    return i < extent.size() && (std::isalnum(static_cast<unsigned char>(extent[i])) ||
                                 extent[i] == '_' || extent[i] == '.');
  };
  for (size_t i = 0, end = 0; i < extent.size(); i = end + 1) {
    for (end = i; in_word(end);) ++end;
    std::string word = extent.substr(i, end - i);  // a function's is T.min
    if (is_name(word) && std::find(found.begin(), found.end(), word) == found.end()) {
      found.push_back(word);
    }
  }
  return found;
}

std::string bind(const std::string& extent, int64_t length, Dims* dims) {
  if (is_name(extent)) {
    dims->emplace(extent, length);
    return "";
  }
  std::vector<std::string> unknown;
  for (const std::string& name : names(extent)) {
    if (!dims->count(name)) unknown.push_back(name);
  }
  if (unknown.size() != 1) return "";
  auto at = [&](int64_t value) {
    Dims probe = *dims;
    probe[unknown[0]] = value;
    return evaluate(extent, probe);
  };
  auto first = at(0), second = at(1), third = at(2);
  if (!first || !second || !third) return "";
  try {
    int64_t step = difference(*second, *first);
    if (step <= 0 || difference(*third, *second) != step) return "";
    int64_t above = difference(length, *first), value = floor_divided(above, step);
    (*dims)[unknown[0]] = value;
    if (value * step == above) return "";
    std::string rest = *first ? " and " + std::to_string(*first) : "";
    return "a multiple of " + std::to_string(step) + rest;
  } catch (const TooLarge&) {
    return "";
  }
}

std::optional<int64_t> evaluate(const std::string& extent, const Dims& dims) {
  if (extent.size() > kLongest) return std::nullopt;
  try {
    return Evaluator(extent, dims).whole();
  } catch (const Unknown&) {
    return std::nullopt;
  } catch (const TooLarge&) {
    return kMost;
  }
}

}  // namespace tvm_sparse
