// Modules: their variables, functions and kernels.
#include "parser.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace ptx {

namespace {

// ".ptr .global .align 16": what a parameter points to, which changes nothing.
void SkipPointee(Reader* reader) {
  if (!reader->Take(".ptr")) return;
  for (const char* space : {".global", ".shared", ".local", ".const"}) reader->Take(space);
  if (reader->Take(".align")) reader->Number();
}

}  // namespace

Declared ReadVariable(Reader* reader) {
  Declared found;
  if (reader->Take(".align")) found.align = reader->Number();
  const Token type = reader->Next();
  if (!ParseType(type.text.substr(1), &found.type))
    Fail(type.line, "unknown type '" + type.text + "'");
  SkipPointee(reader);
  found.bytes = Bytes(found.type);
  found.align = std::max(found.align, found.bytes);
  found.name = reader->Next().text;
  if (reader->Take("[")) {
    found.bytes *= reader->Peek().kind == Token::kNumber ? reader->Number() : 0;
    reader->Expect("]");
  }
  return found;
}

std::vector<Declared> ReadParameters(Reader* reader) {
  std::vector<Declared> found;
  if (!reader->Take("(")) return found;
  while (!reader->Take(")")) {
    reader->Expect(".param");
    found.push_back(ReadVariable(reader));
    reader->Take(",");
  }
  return found;
}

namespace {

void SkipBraces(Reader* reader) {
  int depth = 0;
  do {
    const Token token = reader->Next();
    if (token.kind == Token::kEnd) Fail(token.line, "the text ends inside of braces");
    depth += (token.text == "{") - (token.text == "}");
  } while (depth > 0);
}

// The values behind a variable, "{1, 2, 3}"; all bytes are zero without any.
std::vector<char> ReadValues(Reader* reader, const Declared& one) {
  std::vector<char> data(one.bytes);
  if (reader->Take("=")) {
    const bool braces = reader->Take("{");
    size_t at = 0;
    do {
      const uint64_t value = reader->Number();
      const size_t size = Bytes(one.type);
      if (at + size > data.size())
        Fail(reader->Peek().line, "more values than '" + one.name + "' has");
      std::memcpy(data.data() + at, &value, size);
      at += size;
    } while (reader->Take(","));
    if (braces) reader->Expect("}");
  }
  reader->Expect(";");
  return data;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines(1);
  std::istringstream stream(text.substr(0, text.find('\0')));
  for (std::string line; std::getline(stream, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    lines.push_back(begin == std::string::npos ? "" : line.substr(begin));
  }
  return lines;
}

// A function or a kernel, to its end; one that is only declared is not kept.
void ReadFunction(Reader* reader, bool kernel, Functions* found) {
  const std::vector<Declared> results = kernel ? std::vector<Declared>{} : ReadParameters(reader);
  const std::string name = reader->Next().text;
  const std::vector<Declared> params = ReadParameters(reader);
  const Reader rest = *reader;
  while (reader->Peek().text != "{" && reader->Peek().text != ";") reader->Next();
  if (reader->Take(";")) return;
  SkipBraces(reader);
  found->emplace(name, Function{results, params, rest});
}

// One statement of a module.
void ReadDeclaration(Reader* reader, Module* module, Surroundings* around, Functions* kernels) {
  const Token token = reader->Next();
  const std::string& word = token.text;
  if (word == ".version" || word == ".target" || word == ".address_size") {
    do reader->Next();
    while (reader->Take(","));
  } else if (word == ".file") {  // of the source, for a debugger
    const int line = token.line;
    while (reader->Peek().line == line) reader->Next();
  } else if (word == ".section") {
    while (reader->Peek().text != "{") reader->Next();
    SkipBraces(reader);
  } else if (word == ".visible" || word == ".extern" || word == ".weak") {
    return;
  } else if (word == ".shared") {
    around->shared.push_back(ReadVariable(reader));
    reader->Expect(";");
  } else if (word == ".global" || word == ".const") {
    const Declared one = ReadVariable(reader);
    module->globals[one.name] = ReadValues(reader, one);
  } else if (word == ".func" || word == ".entry") {
    ReadFunction(reader, word == ".entry", word == ".entry" ? kernels : &around->functions);
  } else {
    Fail(token.line, "unknown directive '" + word + "'");
  }
}

}  // namespace

Module Load(const std::string& text) {
  Module module;
  module.lines = Lines(text);
  const std::vector<Token> tokens = Tokenize(text);
  Reader reader(tokens);
  Surroundings around{&module, {}, {}};
  Functions kernels;
  while (reader.Peek().kind != Token::kEnd) ReadDeclaration(&reader, &module, &around, &kernels);
  for (const auto& [name, source] : kernels) {
    Kernel& kernel = module.kernels[name];
    kernel.name = name;
    ReadKernel(source, around, &kernel);
  }
  return module;
}

}  // namespace ptx
