// Kernels: registers, labels, instructions.
#include "kernel_parser.h"

#include <algorithm>

namespace ptx {

const std::string kEnd;

const Table& Instructions() {
  static const Table* table = [] {
    auto* made = new Table;
    for (auto add :
         {AddArithmetic, AddProducts,  AddLogic,   AddFields,      AddBits,   AddCompare,
          AddFloats,     AddConvert,   AddMemory,  AddAtomics,     AddAsync,  AddMbarriers,
          AddWarpgroups, AddMoves,     AddWarp,    AddCollectives, AddMatrix, AddFragments,
          AddWmma,       AddFunctions, AddCarries, AddFlow}) {
      add(made);
    }
    return made;
  }();
  return *table;
}

void KernelParser::Parse(const Function& source) {
  for (const Declared& one : around_.shared) {
    if (one.bytes > 0) builder_.AddVariable(Space::kShared, one.name, one.bytes, one.align);
    if (one.bytes == 0) dynamic_.push_back(one);
  }
  builder_.Open();
  Parameters(source.params);
  frames_.push_back({kernel_.name, Labels(1), {}});
  Reader reader = source.rest;
  Limits(&reader);
  Body(&reader);
  Close();
  for (size_t i = 0; i < kernel_.code.size(); ++i) {
    kernel_.code[i].args = kernel_.operands.data() + first_[i];
  }
  FindJoins(&kernel_.code);
}

void KernelParser::Parameters(const std::vector<Declared>& params) {
  for (const Declared& one : params) {
    uint32_t& end = kernel_.param_bytes;
    end = static_cast<uint32_t>((end + one.align - 1) / one.align * one.align);
    kernel_.params.push_back({one.name, end, static_cast<uint32_t>(one.bytes)});
    builder_.Name(one.name, {one.name, Space::kParam, end, one.bytes});
    end += static_cast<uint32_t>(one.bytes);
  }
}

void KernelParser::Limits(Reader* reader) {
  while (reader->Peek().text != "{") {
    const Token token = reader->Next();
    if (token.text == ".maxntid" || token.text == ".reqntid") {
      kernel_.most_threads = reader->Number();
      while (reader->Take(",")) kernel_.most_threads *= reader->Number();
    } else if (token.text == ".minnctapersm" || token.text == ".maxnreg") {
      reader->Number();
    } else {
      Fail(token.line, "unknown directive '" + token.text + "'");
    }
  }
}

// From the opening brace to the closing one.
void KernelParser::Body(Reader* reader) {
  reader->Expect("{");
  std::vector<size_t> inner;  // branches before each brace that is open
  for (int depth = 1; depth > 0;) {
    const Token& token = reader->Peek();
    if (token.kind == Token::kEnd) Fail(token.line, "a kernel that does not end");
    if (reader->Take("{")) {
      builder_.Open();
      ++depth;
      frames_.back().labels.emplace_back();
      inner.push_back(frames_.back().branches.size());
    } else if (reader->Take("}")) {
      if (--depth == 0) break;
      builder_.Close();
      Resolve(inner.back());
      inner.pop_back();
      frames_.back().labels.pop_back();
    } else if (token.text[0] == '.') {
      Directive(reader);
    } else if (token.kind == Token::kWord && reader->Peek(1).text == ":") {
      frames_.back().labels.back()[reader->Next().text] = static_cast<int>(kernel_.code.size());
      reader->Expect(":");
    } else {
      Instruction(reader->ReadStatement());
    }
  }
}

void KernelParser::Directive(Reader* reader) {
  const Token token = reader->Next();
  if (token.text == ".reg") {
    Registers(reader);
  } else if (token.text == ".shared" || token.text == ".local" || token.text == ".param") {
    const Declared one = ReadVariable(reader);
    // What calls hand over lies where the caller's own variables lie.
    const Space space = token.text == ".shared" ? Space::kShared : Space::kLocal;
    if (space == Space::kShared && placed_)
      Fail(token.line, "a shared variable is declared behind the first instruction");
    builder_.AddVariable(space, one.name, one.bytes, one.align);
    reader->Expect(";");
  } else if (token.text == ".loc") {
    const int line = reader->Peek().line;
    while (reader->Peek().line == line) reader->Next();
  } else if (token.text == ".pragma") {
    while (!reader->Take(";")) reader->Next();
  } else {
    Fail(token.line, "unknown directive '" + token.text + "'");
  }
}

void KernelParser::Registers(Reader* reader) {
  const Token token = reader->Next();
  Type type;
  if (!ParseType(token.text.substr(1), &type))
    Fail(token.line, "unknown type '" + token.text + "'");
  do {
    const std::string name = reader->Next().text;
    if (reader->Take("<")) {
      const uint64_t count = reader->Number();
      reader->Expect(">");
      for (uint64_t i = 0; i < count; ++i) builder_.Declare(name + std::to_string(i), Bytes(type));
    } else {
      builder_.Declare(name, Bytes(type));
    }
  } while (reader->Take(","));
  reader->Expect(";");
}

void KernelParser::Instruction(const Statement& statement) {
  const std::string& base = statement.opcode[0];
  if (base == "call") return Inline(statement);
  PlaceDynamic();
  Decoder decoder(&builder_, statement);
  const auto found = Instructions().find(base);
  if (found == Instructions().end()) decoder.Unknown();
  found->second(decoder);
  Append(decoder);
  if (decoder.inst.flow == Flow::kBranch) Branch(decoder.operand(0).name);
  // A function's return leads behind its body; a kernel's ends the thread, as "exit" does.
  if (base == "ret" && frames_.size() > 1) {
    kernel_.code.back().flow = Flow::kBranch;
    Branch(kEnd);
  }
}

void KernelParser::Append(const Decoder& decoder) {
  first_.push_back(kernel_.operands.size());
  kernel_.operands.insert(kernel_.operands.end(), decoder.args.begin(), decoder.args.end());
  kernel_.code.push_back(decoder.inst);
  Inst& inst = kernel_.code.back();
  inst.operands = static_cast<uint16_t>(decoder.args.size());
  for (size_t i = 0; i < decoder.args.size() && i < 32; ++i) {
    const auto& written = decoder.written;
    const bool writes = std::find(written.begin(), written.end(), decoder.args[i]) != written.end();
    inst.targets |= static_cast<uint32_t>(writes) << i;
  }
}

// The last instruction branches to `label` of the innermost function.
void KernelParser::Branch(const std::string& label) {
  frames_.back().branches.emplace_back(kernel_.code.size() - 1, label);
}

// Dynamic shared memory begins behind all variables, which stand before the first instruction.
void KernelParser::PlaceDynamic() {
  for (const Declared& one : dynamic_) builder_.AddVariable(Space::kShared, one.name, 0, one.align);
  dynamic_.clear();
  placed_ = true;
}

void KernelParser::Resolve(size_t first) {
  Frame& frame = frames_.back();
  const auto known = [&](const std::pair<size_t, std::string>& branch) {
    const auto found = frame.labels.back().find(branch.second);
    if (found == frame.labels.back().end()) return false;
    kernel_.code[branch.first].target = found->second;
    return true;
  };
  auto& all = frame.branches;
  all.erase(std::remove_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(), known),
            all.end());
}

// The innermost function has ended: its branches find their labels.
void KernelParser::Close() {
  Frame& frame = frames_.back();
  frame.labels.back()[kEnd] = static_cast<int>(kernel_.code.size());
  Resolve(0);
  for (const auto& [at, label] : frame.branches)
    Fail(kernel_.code[at].line, "unknown label '" + label + "'");
  frames_.pop_back();
}

void ReadKernel(const Function& source, const Surroundings& around, Kernel* kernel) {
  KernelParser(around, kernel).Parse(source);
}

}  // namespace ptx
