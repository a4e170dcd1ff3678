// Kernels: registers, labels, instructions.
#include "parser.h"

namespace ptx {
namespace {

const Table& Instructions() {
  static const Table* table = [] {
    auto* made = new Table;
    for (auto add :
         {AddArithmetic, AddProducts, AddLogic, AddFields, AddCompare, AddFloats, AddConvert,
          AddMemory, AddAsync, AddMoves, AddWarp, AddMatrix, AddFunctions, AddFlow}) {
      add(made);
    }
    return made;
  }();
  return *table;
}

class KernelParser {
 public:
  KernelParser(Reader* reader, Kernel* kernel, const Module* module)
      : reader_(*reader), kernel_(*kernel), builder_(kernel, module) {}

  void Parse(const std::vector<Declared>& shared) {
    Parameters();
    Limits();
    reader_.Expect("{");
    for (const Declared& one : shared) {
      if (one.bytes > 0) builder_.AddVariable(Space::kShared, one.name, one.bytes, one.align);
      if (one.bytes == 0) dynamic_.push_back(one);
    }
    Body();
    Finish();
  }

 private:
  void Parameters() {
    if (!reader_.Take("(")) return;
    while (!reader_.Take(")")) {
      reader_.Expect(".param");
      const Declared one = ReadVariable(&reader_);
      uint32_t& end = kernel_.param_bytes;
      end = static_cast<uint32_t>((end + one.align - 1) / one.align * one.align);
      kernel_.params.push_back({one.name, end, static_cast<uint32_t>(one.bytes)});
      end += static_cast<uint32_t>(one.bytes);
      reader_.Take(",");
    }
  }

  void Limits() {
    while (reader_.Peek().text != "{") {
      const Token token = reader_.Next();
      if (token.text == ".maxntid" || token.text == ".reqntid") {
        kernel_.most_threads = reader_.Number();
        while (reader_.Take(",")) kernel_.most_threads *= reader_.Number();
      } else if (token.text == ".minnctapersm" || token.text == ".maxnreg") {
        reader_.Number();
      } else {
        Fail(token.line, "unknown directive '" + token.text + "'");
      }
    }
  }

  void Body() {
    for (int depth = 1; depth > 0;) {
      const Token& token = reader_.Peek();
      if (token.kind == Token::kEnd) Fail(token.line, "a kernel that does not end");
      if (reader_.Take("{")) {
        builder_.Open();
        ++depth;
      } else if (reader_.Take("}")) {
        if (--depth > 0) builder_.Close();
      } else if (token.text[0] == '.') {
        Directive();
      } else if (token.kind == Token::kWord && reader_.Peek(1).text == ":") {
        labels_[reader_.Next().text] = static_cast<int>(kernel_.code.size());
        reader_.Expect(":");
      } else {
        Instruction(reader_.ReadStatement());
      }
    }
  }

  void Directive() {
    const Token token = reader_.Next();
    if (token.text == ".reg") {
      Registers();
    } else if (token.text == ".shared" || token.text == ".local") {
      const Declared one = ReadVariable(&reader_);
      const Space space = token.text == ".shared" ? Space::kShared : Space::kLocal;
      if (placed_) Fail(token.line, "a variable is declared behind the first instruction");
      builder_.AddVariable(space, one.name, one.bytes, one.align);
      reader_.Expect(";");
    } else if (token.text == ".loc") {
      const int line = reader_.Peek().line;
      while (reader_.Peek().line == line) reader_.Next();
    } else if (token.text == ".pragma") {
      while (!reader_.Take(";")) reader_.Next();
    } else {
      Fail(token.line, "unknown directive '" + token.text + "'");
    }
  }

  void Registers() {
    const Token token = reader_.Next();
    Type type;
    if (!ParseType(token.text.substr(1), &type))
      Fail(token.line, "unknown type '" + token.text + "'");
    do {
      const std::string name = reader_.Next().text;
      if (reader_.Take("<")) {
        const uint64_t count = reader_.Number();
        reader_.Expect(">");
        for (uint64_t i = 0; i < count; ++i)
          builder_.Declare(name + std::to_string(i), Bytes(type));
      } else {
        builder_.Declare(name, Bytes(type));
      }
    } while (reader_.Take(","));
    reader_.Expect(";");
  }

  void Instruction(const Statement& statement) {
    PlaceDynamic();
    Decoder decoder(&builder_, statement);
    const auto found = Instructions().find(decoder.base());
    if (found == Instructions().end()) decoder.Unknown();
    found->second(decoder);
    first_.push_back(kernel_.operands.size());
    kernel_.operands.insert(kernel_.operands.end(), decoder.args.begin(), decoder.args.end());
    kernel_.code.push_back(decoder.inst);
    if (decoder.inst.flow == Flow::kBranch) {
      branches_.emplace_back(kernel_.code.size() - 1, decoder.operand(0).name);
    }
  }

  // Dynamic shared memory begins behind all variables, which stand before the first instruction.
  void PlaceDynamic() {
    for (const Declared& one : dynamic_)
      builder_.AddVariable(Space::kShared, one.name, 0, one.align);
    dynamic_.clear();
    placed_ = true;
  }

  void Finish() {
    for (const auto& [at, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) Fail(kernel_.code[at].line, "unknown label '" + label + "'");
      kernel_.code[at].target = found->second;
    }
    for (size_t i = 0; i < kernel_.code.size(); ++i) {
      kernel_.code[i].args = kernel_.operands.data() + first_[i];
    }
    FindJoins(&kernel_.code);
  }

  Reader& reader_;
  Kernel& kernel_;
  Builder builder_;
  std::vector<Declared> dynamic_;
  bool placed_ = false;
  std::vector<size_t> first_;
  std::map<std::string, int> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

void ReadKernel(Reader* reader, Kernel* kernel, const Module* module,
                const std::vector<Declared>& shared) {
  KernelParser(reader, kernel, module).Parse(shared);
}

}  // namespace ptx
