#include "device.h"

#include <cstring>

namespace ptx {

void Device::Add(uint64_t base, uint64_t bytes, const std::string& name, bool written) {
  Allocation& made = allocations_[base];
  made = {base, bytes, name.empty() ? "buffer " + std::to_string(++made_) : name, {}};
  if (!written) made.written.resize((bytes + 7) / 8 + 1);
}

void Device::Remove(uint64_t base) { allocations_.erase(base); }

Allocation* Device::Find(uint64_t address) {
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return nullptr;
  Allocation& before = (--found)->second;
  return address - before.base < before.bytes ? &before : nullptr;
}

std::string Device::Describe(uint64_t address) {
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return "no buffer";
  const Allocation& before = (--found)->second;
  const uint64_t at = address - before.base;
  const std::string name = before.name + " (" + std::to_string(before.bytes) + " bytes)";
  constexpr uint64_t kNear = 1 << 20;
  return at < before.bytes + kNear ? name + ", byte " + std::to_string(at) : "no buffer";
}

void Device::Wrote(uint64_t address, uint64_t bytes) {
  Allocation* allocation = Find(address);
  if (allocation != nullptr && bytes > 0) MarkWritten(allocation, address, bytes);
}

void Device::Report(const Finding& finding) {
  for (Finding& known : findings_) {
    if (known.kind == finding.kind && known.kernel == finding.kernel &&
        known.line == finding.line) {
      ++known.times;
      return;
    }
  }
  findings_.push_back(finding);
}

}  // namespace ptx
