// Registers, variables and constants of one kernel.
#include <algorithm>
#include <cstring>

#include "decoder.h"

namespace ptx {
namespace {

const std::map<std::string, Special> kSpecials = {
    {"%tid.x", Special::kTidX},         {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},         {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},       {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},     {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},     {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},   {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLane},        {"%warpid", Special::kWarp},
    {"%lanemask_eq", Special::kLaneEq}, {"%lanemask_lt", Special::kLaneLt},
    {"%lanemask_le", Special::kLaneLe}, {"%lanemask_gt", Special::kLaneGt},
    {"%lanemask_ge", Special::kLaneGe}, {"%dynamic_smem_size", Special::kDynamicShared},
    {"%smid", Special::kZero},          {"%nsmid", Special::kOne},
};

}  // namespace

// Lanes of a register, or one mask for a predicate.
Place Allocate(Kernel* kernel, int bytes) {
  const Place place = kernel->register_bytes;
  kernel->register_bytes += bytes == 0 ? 64 : static_cast<uint32_t>(bytes) * kLanes;
  return place;
}

void Builder::OpenFunction() {
  functions_.push_back(scopes_.size());
  Open();
}

void Builder::CloseFunction() {
  scopes_.resize(functions_.back());
  functions_.pop_back();
}

void Builder::Declare(const std::string& name, int bytes) {
  scopes_.back().registers[name] = {Allocate(kernel_, bytes), bytes};
}

void Builder::AddVariable(Space space, const std::string& name, uint64_t bytes, uint64_t align) {
  uint64_t* end = space == Space::kShared ? &kernel_->shared_bytes : &kernel_->local_bytes;
  *end = (*end + align - 1) / align * align;
  const Variable made{name, space, *end, bytes};
  if (space == Space::kShared) kernel_->shared.push_back(made);
  // Shared variables have names of their own in the whole module.
  (space == Space::kShared ? scopes_.front() : scopes_.back()).variables[name] = made;
  *end += bytes;
}

void Builder::Name(const std::string& name, const Variable& variable) {
  scopes_.back().variables[name] = variable;
}

template <class Look>
auto Builder::Search(Look look) const -> decltype(look(std::declval<const Scope&>())) {
  for (size_t at = scopes_.size(); at-- > functions_.back();) {
    if (const auto found = look(scopes_[at])) return found;
  }
  return look(scopes_.front());
}

const Register* Builder::Find(const std::string& name) {
  const auto look = [&](const Scope& scope) {
    const auto found = scope.registers.find(name);
    return found == scope.registers.end() ? nullptr : &found->second;
  };
  if (const Register* found = Search(look)) return found;
  const auto special = kSpecials.find(name);
  if (special == kSpecials.end()) return nullptr;
  const Register made{Allocate(kernel_, 4), 4};
  kernel_->specials.emplace_back(special->second, made.place);
  return &(scopes_.front().registers[name] = made);
}

const Variable* Builder::FindVariable(const std::string& name) const {
  return Search([&](const Scope& scope) {
    const auto found = scope.variables.find(name);
    return found == scope.variables.end() ? nullptr : &found->second;
  });
}

Place Builder::Carry() {
  if (carry_ == kNowhere) carry_ = Allocate(kernel_, 0);
  return carry_;
}

Place Builder::Constant(uint64_t bits, int bytes) {
  const auto key = std::make_pair(bits, bytes);
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  std::vector<char>& pool = kernel_->constants;
  const Place place = kConstant | static_cast<Place>(pool.size());
  const int size = bytes == 0 ? 64 : bytes * kLanes;
  pool.resize(pool.size() + size);
  char* lanes = pool.data() + (place & ~kConstant);
  for (int at = 0; at < size; at += std::max(bytes, 4) == 4 && bytes == 0 ? 4 : bytes) {
    std::memcpy(lanes + at, &bits, bytes == 0 ? 4 : bytes);
  }
  return constants_[key] = place;
}

}  // namespace ptx
