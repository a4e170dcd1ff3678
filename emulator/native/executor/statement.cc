#include "statement.h"

#include <cctype>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace ptx {

void Fail(int line, const std::string& what) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what);
}

namespace {

bool InWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Return how far the comment or white space at `at` reaches, `at` itself where there is none.
size_t Skip(const std::string& text, size_t at, int* line) {
  if (std::isspace(static_cast<unsigned char>(text[at]))) {
    *line += text[at] == '\n';
    return at + 1;
  }
  if (text.compare(at, 2, "//") == 0) {
    const size_t end = text.find('\n', at);
    return end == std::string::npos ? text.size() : end;
  }
  if (text.compare(at, 2, "/*") == 0) {
    const size_t end = std::min(text.find("*/", at), text.size() - 2) + 2;
    for (size_t i = at; i < end; ++i) *line += text[i] == '\n';
    return end;
  }
  return at;
}

}  // namespace

std::vector<Token> Tokenize(const std::string& text) {
  std::vector<Token> found;
  int line = 1;
  for (size_t at = 0; at < text.size() && text[at] != '\0';) {
    const size_t skipped = Skip(text, at, &line);
    if (skipped != at) {
      at = skipped;
      continue;
    }
    size_t end = at + 1;
    const char c = text[at];
    Token::Kind kind = Token::kMark;
    if (c == '"') {
      end = text.find('"', at + 1);
      if (end == std::string::npos) Fail(line, "a string that does not end");
      ++end;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      kind = Token::kNumber;
      while (end < text.size() && (InWord(text[end]) || text[end] == '.')) ++end;
    } else if (InWord(c) || (c == '.' && end < text.size() && InWord(text[end]))) {
      kind = Token::kWord;
      const bool directive = c == '.';  // ".reg.b32" is two words, "ld.global" is one
      while (end < text.size() && (InWord(text[end]) || (!directive && text[end] == '.') ||
                                   text.compare(end, 2, "::") == 0)) {
        end += text[end] == ':' ? 2 : 1;
      }
    }
    found.push_back({kind, text.substr(at, end - at), line});
    at = end;
  }
  found.push_back({Token::kEnd, "", line});
  return found;
}

const Token& Reader::Peek(int ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Reader::Next() {
  const Token& token = Peek();
  if (token.kind != Token::kEnd) ++at_;
  return token;
}

bool Reader::Take(const char* text) {
  if (Peek().text != text) return false;
  ++at_;
  return true;
}

void Reader::Expect(const char* text) {
  const Token token = Next();
  if (token.text != text) Fail(token.line, "found '" + token.text + "', expected '" + text + "'");
}

uint64_t Reader::Number() {
  const bool minus = Take("-");
  const Token token = Next();
  if (token.kind != Token::kNumber)
    Fail(token.line, "found '" + token.text + "', expected a number");
  const uint64_t value = std::strtoull(token.text.c_str(), nullptr, 0);
  return minus ? -value : value;
}

Operand Reader::ReadAddress() {
  Operand operand;
  operand.kind = Operand::kAddress;
  if (Peek().kind == Token::kNumber || Peek().text == "-") {
    operand.offset = static_cast<int64_t>(Number());
  } else {
    operand.name = Next().text;
    if (Take("+")) operand.offset = static_cast<int64_t>(Number());
  }
  if (Take(",")) operand.parts = ReadOperand().parts;  // coordinates in a tensor
  Expect("]");
  return operand;
}

Operand Reader::ReadOperand() {
  if (Take("[")) return ReadAddress();
  Operand operand;
  if (Peek().text == "{" || Peek().text == "(") {
    const char* end = Next().text == "{" ? "}" : ")";
    operand.kind = Operand::kVector;
    if (Take(end)) return operand;
    do operand.parts.push_back(ReadOperand());
    while (Take(","));
    Expect(end);
    return operand;
  }
  operand.negated = Take("!");
  const Token& token = Peek();
  if (token.kind == Token::kNumber || token.text == "-") {
    operand.kind = Operand::kNumber;
    const std::string& text = token.text;
    if (text.size() > 2 && text[0] == '0' &&
        std::string("fFdD").find(text[1]) != std::string::npos) {
      operand.real = std::tolower(text[1]) == 'f' ? 4 : 8;
      operand.bits = std::strtoull(text.c_str() + 2, nullptr, 16);
      Next();
    } else {
      operand.bits = Number();
    }
    return operand;
  }
  if (token.kind != Token::kWord) {
    Fail(token.line, "instruction '" + opcode_ + "' is not one that the executor knows (found '" +
                         token.text + "', expected an operand)");
  }
  operand.name = Next().text;
  if (Take("|")) operand.second = Next().text;
  return operand;
}

Statement Reader::ReadStatement() {
  Statement statement;
  statement.line = Peek().line;
  if (Take("@")) {
    statement.negated = Take("!");
    statement.guard = Next().text;
  }
  const Token opcode = Next();
  if (opcode.kind != Token::kWord)
    Fail(opcode.line, "found '" + opcode.text + "', expected an instruction");
  statement.line = opcode.line;
  opcode_ = opcode.text;
  std::istringstream parts(opcode.text);
  for (std::string part; std::getline(parts, part, '.');) statement.opcode.push_back(part);
  if (!Take(";")) {
    do statement.operands.push_back(ReadOperand());
    while (Take(","));
    Expect(";");
  }
  return statement;
}

}  // namespace ptx
