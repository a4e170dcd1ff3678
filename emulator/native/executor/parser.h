// Declarations of variables, functions and kernels: what the two halves of the parser share.
#pragma once
#include <string>
#include <vector>

#include "decoder.h"

namespace ptx {

struct Declared {
  Type type = Type::kB8;
  uint64_t align = 1, bytes = 0;
  std::string name;
};

// ".align 64 .b8 name[16]", up to what follows.
Declared ReadVariable(Reader* reader);

// "(.param .b64 a, .param .b64 b)"; nothing if no parenthesis follows.
std::vector<Declared> ReadParameters(Reader* reader);

// A function or kernel whose body has not been read yet.
struct Function {
  std::vector<Declared> results, params;
  Reader rest;  // what follows the parameters: directives, then the body
};
using Functions = std::map<std::string, Function>;

// What kernels of one module see.
struct Surroundings {
  const Module* module;
  std::vector<Declared> shared;
  Functions functions;
};

// Decode a kernel; the functions that it calls become part of it.
void ReadKernel(const Function& source, const Surroundings& around, Kernel* kernel);

}  // namespace ptx
