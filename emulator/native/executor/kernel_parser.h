// Reads one kernel: its registers, labels, instructions, and the functions that it calls.
#pragma once
#include "parser.h"

namespace ptx {

class KernelParser {
 public:
  KernelParser(const Surroundings& around, Kernel* kernel)
      : around_(around), kernel_(*kernel), builder_(kernel, around.module) {}
  void Parse(const Function& source);

 private:
  void Parameters(const std::vector<Declared>& params);
  void Limits(Reader* reader);
  void Body(Reader* reader);  // from the opening brace to the closing one
  void Directive(Reader* reader);
  void Registers(Reader* reader);
  void Instruction(const Statement& statement);
  void PlaceDynamic();
  void Append(const Decoder& decoder);
  void Branch(const std::string& label);  // the last instruction does so
  void Resolve(size_t first);  // branches from there on that the innermost braces have labels for
  void Close();

  // Functions that are called: calls.cc.
  void Inline(const Statement& statement);
  void Bind(const Statement& call, const std::vector<Operand>& operands,
            const std::vector<Declared>& formal, std::vector<Variable>* given);
  void SkipUnless(const Statement& call);

  // The kernel, or a function whose body takes the place of its call.
  using Labels = std::vector<std::map<std::string, int>>;
  struct Frame {
    std::string name;
    Labels labels;  // of the braces that are open
    std::vector<std::pair<size_t, std::string>> branches;
  };

  const Surroundings& around_;
  Kernel& kernel_;
  Builder builder_;
  std::vector<Declared> dynamic_;
  bool placed_ = false;
  std::vector<size_t> first_;
  std::vector<Frame> frames_;
};

const Table& Instructions();

// The label behind the last instruction of a function.
extern const std::string kEnd;

}  // namespace ptx
