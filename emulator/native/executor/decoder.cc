#include "decoder.h"

#include <algorithm>
#include <cstring>

namespace ptx {

namespace {

const std::map<std::string, Type> kTypes = {
    {"pred", Type::kPred},     {"b8", Type::kB8},   {"b16", Type::kB16},     {"b32", Type::kB32},
    {"b64", Type::kB64},       {"u8", Type::kU8},   {"u16", Type::kU16},     {"u32", Type::kU32},
    {"u64", Type::kU64},       {"s8", Type::kS8},   {"s16", Type::kS16},     {"s32", Type::kS32},
    {"s64", Type::kS64},       {"f16", Type::kF16}, {"f16x2", Type::kF16x2}, {"bf16", Type::kBF16},
    {"bf16x2", Type::kBF16x2}, {"f32", Type::kF32}, {"f64", Type::kF64},
};

}  // namespace

const char* const kPipeNames[kPipes] = {"fma",    "alu",    "half",   "special",
                                        "memory", "tensor", "control"};

int Bytes(Type type) {
  switch (type) {
    case Type::kPred: return 0;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8: return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBF16: return 2;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64: return 8;
    default: return 4;
  }
}

bool ParseType(const std::string& text, Type* type) {
  const auto found = kTypes.find(text);
  if (found == kTypes.end()) return false;
  *type = found->second;
  return true;
}

Decoder::Decoder(Builder* b, const Statement& statement)
    : builder(*b),
      statement_(statement),
      left_(statement.opcode.begin() + 1, statement.opcode.end()) {
  inst.line = statement.line;
  inst.negated = statement.negated;
  if (!statement.guard.empty()) inst.guard = PredicateTarget(statement.guard);
}

bool Decoder::Has(const char* modifier) {
  const auto found = std::find(left_.begin(), left_.end(), modifier);
  if (found == left_.end()) return false;
  left_.erase(found);
  return true;
}

bool Decoder::OfFloats() const {
  Type type;
  return ParseType(statement_.opcode.back(), &type) && type >= Type::kF16;
}

Type Decoder::LastType() const {
  Type type;
  if (!ParseType(statement_.opcode.back(), &type)) Unknown();
  return type;
}

Type Decoder::TakeType() {
  Type type;
  if (left_.empty() || !ParseType(left_.front(), &type)) Unknown();
  left_.erase(left_.begin());
  return type;
}

void Decoder::End() const {
  if (!left_.empty()) Unknown();
}

void Decoder::Operands(size_t count) const {
  if (operands() != count) Unknown();
}

void Decoder::Unknown() const {
  std::string name;
  for (const std::string& part : statement_.opcode) name += (name.empty() ? "" : ".") + part;
  Fail(line(), "instruction '" + name + "' is not one that the executor knows");
}

void Decoder::Width(const std::string& name, int found, int expected) const {
  Fail(line(), "'" + name + "' has " + std::to_string(found) + " bytes, expected " +
                   std::to_string(expected));
}

Register Decoder::Named(const std::string& name, int bytes, bool loose) {
  const Register* found = builder.Find(name);
  if (found == nullptr) Fail(line(), "unknown name '" + name + "'");
  if (found->bytes != bytes && !(loose && found->bytes > bytes)) Width(name, found->bytes, bytes);
  return *found;
}

uint64_t SymbolAddress(const Variable& variable) { return variable.offset; }

Register Decoder::Loose(const Operand& operand, Type type) {
  const int bytes = Bytes(type);
  if (operand.kind == Operand::kNumber) {
    if (operand.real != 0 && operand.real != bytes) Unknown();
    return {builder.Constant(bytes == 8 ? operand.bits : operand.bits & ((1ull << 8 * bytes) - 1),
                             bytes),
            bytes};
  }
  if (operand.kind != Operand::kName) Unknown();
  if (operand.name == "WARP_SZ") return {builder.Constant(kLanes, bytes), bytes};
  if (builder.Find(operand.name) == nullptr) {
    const Variable* variable = builder.FindVariable(operand.name);
    if (variable != nullptr) {  // of a parameter: its place among them
      return {builder.Constant(SymbolAddress(*variable), bytes), bytes};
    }
    const auto global = builder.module().globals.find(operand.name);
    if (global != builder.module().globals.end() && bytes == 8) {
      return {builder.Constant(reinterpret_cast<uint64_t>(global->second.data()), bytes), bytes};
    }
  }
  return Named(operand.name, bytes, true);
}

Place Decoder::Source(const Operand& operand, Type type) {
  const Register found = Loose(operand, type);
  if (found.bytes != Bytes(type)) Width(operand.name, found.bytes, Bytes(type));
  return found.place;
}

Place Decoder::Target(const Operand& operand, Type type) {
  if (operand.kind != Operand::kName) Unknown();
  if (operand.name == "_") {  // a sink: a register that nothing reads
    return Allocate(&builder.kernel(), Bytes(type));
  }
  written.push_back(Named(operand.name, Bytes(type), false).place);
  return written.back();
}

void Decoder::Vector(size_t i, size_t count, Type type, bool target) {
  const Operand& vector = operand(i);
  if (vector.kind != Operand::kVector || vector.parts.size() != count) Unknown();
  for (const Operand& part : vector.parts) Push(target ? Target(part, type) : Source(part, type));
}

Place Decoder::Predicate(const Operand& operand, bool* negated) {
  *negated = operand.negated;
  if (operand.kind == Operand::kNumber) return builder.Constant(operand.bits ? kAll : 0, 0);
  return PredicateTarget(operand.name);
}

Place Decoder::PredicateTarget(const std::string& name) {
  if (name == "_") return Allocate(&builder.kernel(), 0);
  return Named(name, 0, false).place;
}

uint64_t Decoder::Immediate(size_t i) const {
  if (i >= operands() || operand(i).kind != Operand::kNumber) Unknown();
  return operand(i).bits;
}

void Decoder::Address(const Operand& operand) {
  if (operand.kind != Operand::kAddress) Unknown();
  inst.offset = operand.offset;
  inst.wide = 8;
  if (inst.space == Space::kParam) {
    const Variable* variable = builder.FindVariable(operand.name);
    if (variable == nullptr || variable->space == Space::kShared)
      Fail(line(), "unknown parameter '" + operand.name + "'");
    inst.space = variable->space;  // local memory, unless it is the kernel's own parameter
    inst.offset += static_cast<int64_t>(variable->offset);
    return Push(builder.Constant(0, 8));
  }
  if (operand.name.empty()) return Push(builder.Constant(0, 8));
  if (const Register* found = builder.Find(operand.name)) {
    if (found->bytes != 4 && found->bytes != 8) Unknown();
    inst.wide = static_cast<uint8_t>(found->bytes);
    return Push(found->place);
  }
  Operand name = operand;
  name.kind = Operand::kName;
  Push(Source(name, Type::kU64));
}

void Decoder::NextAddress(const Operand& operand) {
  const size_t index = args.size() / 2;
  Address(operand);
  if (inst.wide == 4) inst.narrow |= static_cast<uint8_t>(1 << index);
  Push(builder.Constant(static_cast<uint64_t>(inst.offset), 8));
  inst.offset = 0;
}

}  // namespace ptx
