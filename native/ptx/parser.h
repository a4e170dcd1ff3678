// Declarations of variables and kernels: what the two halves of the parser share.
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

// A kernel, from behind its name to its closing brace; `shared` are the module's own variables.
void ReadKernel(Reader* reader, Kernel* kernel, const Module* module,
                const std::vector<Declared>& shared);

}  // namespace ptx
