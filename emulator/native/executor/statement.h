// PTX text as statements: an opcode with its modifiers, a guard, operands.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ptx {

struct Token {
  enum Kind { kWord, kNumber, kMark, kEnd } kind;
  std::string text;
  int line;
};

// Words keep their dots ("ld.global.u32", "%tid.x", ".reg"); comments are left out.
std::vector<Token> Tokenize(const std::string& text);

struct Operand {
  enum Kind { kName, kNumber, kVector, kAddress } kind = kName;
  std::string name;            // of a register or symbol; empty in an address that is a number
  std::string second;          // behind '|'
  bool negated = false;        // '!' before a predicate
  uint64_t bits = 0;           // of a number
  int real = 0;                // 4 or 8 for 0f and 0d numbers
  int64_t offset = 0;          // of an address
  std::vector<Operand> parts;  // of a vector {a, b} or of a call's list (a, b)
};

struct Statement {
  std::vector<std::string> opcode;  // split at dots
  std::string guard;
  bool negated = false;
  std::vector<Operand> operands;
  int line = 0;
};

// Walks over tokens.
class Reader {
 public:
  explicit Reader(const std::vector<Token>& tokens) : tokens_(tokens) {}
  const Token& Peek(int ahead = 0) const;
  Token Next();
  bool Take(const char* text);  // the next token, if it is `text`
  void Expect(const char* text);
  uint64_t Number();
  Statement ReadStatement();  // an instruction, from its guard to its semicolon

 private:
  Operand ReadOperand();
  Operand ReadAddress();
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
  std::string opcode_;
};

[[noreturn]] void Fail(int line, const std::string& what);

}  // namespace ptx
