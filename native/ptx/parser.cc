// Modules: their variables and kernels.
#include "parser.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace ptx {

Declared ReadVariable(Reader* reader) {
  Declared found;
  if (reader->Take(".align")) found.align = reader->Number();
  const Token type = reader->Next();
  if (!ParseType(type.text.substr(1), &found.type))
    Fail(type.line, "unknown type '" + type.text + "'");
  found.bytes = Bytes(found.type);
  found.align = std::max(found.align, found.bytes);
  found.name = reader->Next().text;
  if (reader->Take("[")) {
    found.bytes *= reader->Peek().kind == Token::kNumber ? reader->Number() : 0;
    reader->Expect("]");
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

// One statement of a module; `shared` collects its shared variables.
void ReadDeclaration(Reader* reader, Module* module, std::vector<Declared>* shared) {
  const Token token = reader->Next();
  const std::string& word = token.text;
  if (word == ".version" || word == ".target" || word == ".address_size") {
    do reader->Next();
    while (reader->Take(","));
  } else if (word == ".visible" || word == ".extern" || word == ".weak") {
    return;
  } else if (word == ".shared") {
    shared->push_back(ReadVariable(reader));
    reader->Expect(";");
  } else if (word == ".global" || word == ".const") {
    const Declared one = ReadVariable(reader);
    module->globals[one.name] = ReadValues(reader, one);
  } else if (word == ".func") {
    while (reader->Peek().text != "{" && reader->Peek().text != ";") reader->Next();
    if (!reader->Take(";")) SkipBraces(reader);  // a call of it is an unknown instruction
  } else if (word == ".entry") {
    const std::string name = reader->Next().text;
    Kernel& kernel = module->kernels[name];
    kernel.name = name;
    ReadKernel(reader, &kernel, module, *shared);
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
  std::vector<Declared> shared;
  while (reader.Peek().kind != Token::kEnd) ReadDeclaration(&reader, &module, &shared);
  return module;
}

}  // namespace ptx
