// Calls of functions: the body takes the place of the call, so a kernel needs no stack.
#include "kernel_parser.h"

namespace ptx {
namespace {

struct Call {
  std::vector<Operand> results, args;
  std::string name;
};

// "call (results), name, (args);": either list may be missing.
Call TakeApart(const Statement& call) {
  Call found;
  size_t at = 0;
  const std::vector<Operand>& operands = call.operands;
  if (at < operands.size() && operands[at].kind == Operand::kVector)
    found.results = operands[at++].parts;
  if (at < operands.size() && operands[at].kind == Operand::kName) found.name = operands[at++].name;
  if (at < operands.size() && operands[at].kind == Operand::kVector)
    found.args = operands[at++].parts;
  if (found.name.empty() || at != operands.size())
    Fail(call.line, "a call through a pointer is not one that the executor knows");
  return found;
}

}  // namespace

// The body of the function that is called takes the place of "call (results), name, (args)".
void KernelParser::Inline(const Statement& call) {
  const Call parts = TakeApart(call);
  const auto found = around_.functions.find(parts.name);
  const auto system = SystemCalls().find(parts.name);
  if (found == around_.functions.end() && system != SystemCalls().end()) {
    PlaceDynamic();
    const Statement made{{parts.name}, call.guard, call.negated, parts.args, call.line};
    Decoder decoder(&builder_, made);
    system->second(decoder);
    return Append(decoder);
  }
  if (found == around_.functions.end())
    Fail(call.line, "function '" + parts.name + "' has no body in this module");
  for (const Frame& frame : frames_) {
    if (frame.name == parts.name) Fail(call.line, "function '" + parts.name + "' calls itself");
  }
  const Function& function = found->second;
  std::vector<Variable> given;
  Bind(call, parts.results, function.results, &given);
  Bind(call, parts.args, function.params, &given);
  frames_.push_back({parts.name, Labels(1), {}});
  if (!call.guard.empty()) SkipUnless(call);
  builder_.OpenFunction();
  for (const Variable& variable : given) builder_.Name(variable.name, variable);
  Reader reader = function.rest;
  if (reader.Peek().text != "{")
    Fail(reader.Peek().line, "unknown directive '" + reader.Peek().text + "'");
  Body(&reader);
  builder_.CloseFunction();
  Close();
}

// The caller's variables under the names that the function has for them.
void KernelParser::Bind(const Statement& call, const std::vector<Operand>& operands,
                        const std::vector<Declared>& formal, std::vector<Variable>* given) {
  if (operands.size() != formal.size())
    Fail(call.line,
         std::to_string(operands.size()) + " operands, expected " + std::to_string(formal.size()));
  for (size_t i = 0; i < formal.size(); ++i) {
    const Variable* own = builder_.FindVariable(operands[i].name);
    if (own == nullptr || own->space != Space::kLocal || own->bytes != formal[i].bytes)
      Fail(call.line, "'" + operands[i].name + "' is no parameter of " +
                          std::to_string(formal[i].bytes) + " bytes");
    given->push_back({formal[i].name, own->space, own->offset, own->bytes});
  }
}

// Lanes that do not call branch behind the body.
void KernelParser::SkipUnless(const Statement& call) {
  PlaceDynamic();
  Statement branch{{"bra"}, call.guard, !call.negated, {Operand{}}, call.line};
  Decoder decoder(&builder_, branch);
  Instructions().at("bra")(decoder);
  Append(decoder);
  Branch(kEnd);
}

}  // namespace ptx
