#include "json.h"

#include <set>

#include "error.h"
#include "unicode.h"

namespace tvm_sparse::json {
namespace {

constexpr int kDeepest = 200;

class Parser {
 public:
  Parser(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  Value document() {
    Value value = any(0);
    skip_blanks();
    if (at_ != text_.size()) throw wrong("more behind its end");
    return value;
  }

 private:
  Value any(int depth) {
    if (depth > kDeepest) throw wrong("nested too deeply");
    skip_blanks();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return {Kind::kString, string(), {}, {}};
      case 'n': return word("null", Kind::kNull);
      case 'f': return word("false", Kind::kFalse);
      case 't': return word("true", Kind::kTrue);
      default: return number();
    }
  }

  Value object(int depth) {
    Value result{Kind::kObject, "", {}, {}};
    std::set<std::string> names;
    ++at_;
    if (closed('}')) return result;
    do {
      skip_blanks();
      if (peek() != '"') throw wrong("a key that is no string");
      std::string name = string();
      if (!names.insert(name).second) throw wrong("a key that occurs twice");
      skip_blanks();
      expect(':');
      result.members.emplace_back(std::move(name), any(depth + 1));
    } while (more('}'));
    return result;
  }

  Value array(int depth) {
    Value result{Kind::kArray, "", {}, {}};
    ++at_;
    if (closed(']')) return result;
    do {
      result.items.push_back(any(depth + 1));
    } while (more(']'));
    return result;
  }

  bool closed(char end) {
    skip_blanks();
    if (peek() != end) return false;
    ++at_;
    return true;
  }

  bool more(char end) {
    if (closed(end)) return false;
    expect(',');
    return true;
  }

  Value word(const char* name, Kind kind) {
    for (const char* letter = name; *letter; ++letter) expect(*letter);
    return {kind, "", {}, {}};
  }

  Value number() {
    size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    return {Kind::kNumber, text_.substr(begin, at_ - begin), {}, {}};
  }

  void digits() {
    if (peek() < '0' || peek() > '9') throw wrong("a digit that is missing");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }

  std::string string() {
    std::string result;
    for (++at_; peek() != '"';) {
      if (static_cast<unsigned char>(peek()) < 0x20) throw wrong("a control character in a string");
      if (peek() == '\\') {
        ++at_;
        append_escape(&result);
      } else {
        result += text_[at_++];
      }
    }
    ++at_;
    return result;
  }

  void append_escape(std::string* result) {
    static const std::string letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    char letter = peek();
    ++at_;
    if (letter == 'u') {
      append_utf8(result, escaped_code());
      return;
    }
    size_t index = letters.find(letter);
    if (index == std::string::npos) throw wrong("an unknown escape");
    *result += meanings[index];
  }

  uint32_t escaped_code() {
    uint32_t high = four_digits();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF) throw wrong("half a surrogate pair");
    expect('\\');
    expect('u');
    uint32_t low = four_digits();
    if (low < 0xDC00 || low > 0xDFFF) throw wrong("half a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  uint32_t four_digits() {
    static const std::string digits = "0123456789abcdef";
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      char letter = peek() >= 'A' && peek() <= 'F' ? peek() + ('a' - 'A') : peek();
      size_t digit = digits.find(letter);
      if (digit == std::string::npos) throw wrong("no hexadecimal digit");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::string(" \t\n\r").find(text_[at_]) != std::string::npos)
      ++at_;
  }

  void expect(char letter) {
    if (peek() != letter) throw wrong(std::string("not '") + letter + "'");
    ++at_;
  }

  // Zero at the end, where no string of JSON can have one.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Error wrong(const std::string& what) const {
    return bad_artifact(where_,
                        "not a JSON document (" + what + " at byte " + std::to_string(at_) + ")",
                        "UTF-8 JSON");
  }

  const std::string& text_;
  const std::string& where_;
  size_t at_ = 0;
};

}  // namespace

const Value* Value::find(const std::string& name) const {
  for (const auto& member : members) {
    if (member.first == name) return &member.second;
  }
  return nullptr;
}

Value parse(const std::string& document, const std::string& where) {
  if (!is_utf8(document)) throw bad_artifact(where, "not a JSON document (no UTF-8)", "UTF-8 JSON");
  Value value = Parser(document, where).document();
  if (value.kind != Kind::kObject) throw bad_artifact(where, "no object on top", "a JSON object");
  return value;
}

}  // namespace tvm_sparse::json
