// What the instruction families use to decode a statement: types, modifiers, places of operands.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.h"
#include "statement.h"

namespace ptx {

struct Register {
  Place place;
  int bytes;  // 0 for a predicate
};

// A new place for a register of `bytes`, 0 for a predicate.
Place Allocate(Kernel* kernel, int bytes);

// Names of one kernel, and the code made so far. The first scope holds what all functions see.
class Builder {
 public:
  Builder(Kernel* kernel, const Module* module) : kernel_(kernel), module_(module) {}
  void Open() { scopes_.emplace_back(); }
  void Close() { scopes_.pop_back(); }
  // A function's scope, from which only the first one is seen.
  void OpenFunction();
  void CloseFunction();
  void Declare(const std::string& name, int bytes);
  void AddVariable(Space space, const std::string& name, uint64_t bytes, uint64_t align);
  void Name(const std::string& name, const Variable& variable);  // another name for it
  const Register* Find(const std::string& name);
  const Variable* FindVariable(const std::string& name) const;
  Place Constant(uint64_t bits, int bytes);
  Place Carry();  // a predicate, the condition code of add.cc and the like
  Kernel& kernel() { return *kernel_; }
  const Module& module() const { return *module_; }

 private:
  struct Scope {
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, Variable> variables;
  };
  // What `look` finds in the innermost scope that has it, or null.
  template <class Look>
  auto Search(Look look) const -> decltype(look(std::declval<const Scope&>()));

  Kernel* kernel_;
  const Module* module_;
  std::vector<Scope> scopes_{1};
  Place carry_ = kNowhere;
  std::vector<size_t> functions_{1};  // the first scope of each function that is open
  std::map<std::pair<uint64_t, int>, Place> constants_;
};

class Decoder {
 public:
  Decoder(Builder* builder, const Statement& statement);

  const std::string& base() const { return statement_.opcode[0]; }
  bool Has(const char* modifier);  // takes a modifier out, wherever it stands
  bool OfFloats() const;           // whether its last modifier is a type of floats
  Type LastType() const;           // its last modifier, which must be a type
  Type TakeType();                 // the next modifier left, which must be a type
  void End() const;                // every modifier must have been taken
  void Operands(size_t count) const;
  size_t operands() const { return statement_.operands.size(); }
  const Operand& operand(size_t i) const { return statement_.operands[i]; }
  int line() const { return statement_.line; }

  // Places of operand `i`, as wide as `type`; `loose` allows wider registers (ld, st, cvt).
  Place Source(size_t i, Type type) { return Source(operand(i), type); }
  Place Source(const Operand& operand, Type type);
  Place Target(const Operand& operand, Type type);
  void Vector(size_t i, size_t count, Type type, bool target);  // pushes the parts of {a, b, ...}
  Place Predicate(const Operand& operand, bool* negated);
  Place PredicateTarget(const std::string& name);
  Register Loose(const Operand& operand, Type type);  // immediates become constants of `type`
  uint64_t Immediate(size_t i) const;
  void Address(const Operand& operand);      // base register or constant, and offset
  void NextAddress(const Operand& operand);  // one of several: see LaneAddress

  void Push(Place place) { args.push_back(place); }
  [[noreturn]] void Unknown() const;  // an instruction, modifier or operand we do not know

  Inst inst;
  std::vector<Place> args;
  std::vector<Place> written;  // of args
  Builder& builder;

 private:
  [[noreturn]] void Width(const std::string& name, int found, int expected) const;
  Register Named(const std::string& name, int bytes, bool loose);
  const Statement& statement_;
  std::vector<std::string> left_;
};

using Decode = std::function<void(Decoder&)>;
using Table = std::unordered_map<std::string, Decode>;

// Global or shared memory, else generic addresses.
Space TakeSpace(Decoder& d);

// Whether an access is ordered among threads; takes order and scope out. Threads' accesses are in
// order here.
bool SkipOrder(Decoder& d);

bool ParseType(const std::string& text, Type* type);
uint64_t SymbolAddress(const Variable& variable);

void AddArithmetic(Table* table);
void AddProducts(Table* table);
void AddCarries(Table* table);
void AddLogic(Table* table);
void AddFields(Table* table);
void AddBits(Table* table);
void AddCompare(Table* table);
void AddFloats(Table* table);
void AddFunctions(Table* table);
void AddConvert(Table* table);
void AddMemory(Table* table);
void AddAtomics(Table* table);
void AddAsync(Table* table);
void AddMbarriers(Table* table);
void AddWarpgroups(Table* table);
void AddMoves(Table* table);
void AddWarp(Table* table);
void AddCollectives(Table* table);
void AddMatrix(Table* table);
void AddFragments(Table* table);
void AddWmma(Table* table);
void AddFlow(Table* table);

// Functions of CUDA without a body; operands are parameters of the call.
const Table& SystemCalls();

// Where lanes that part at each branch meet again: immediate post-dominators.
void FindJoins(std::vector<Inst>* code);

}  // namespace ptx
