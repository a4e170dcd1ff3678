#include "device.h"

#include <sys/mman.h>

#include <cstring>

namespace ptx {
namespace {

constexpr uint64_t kPage = 4096;
// Addresses behind an allocation that belong to nobody: what a kernel reaches beyond its end is
// not by chance another buffer. They take no memory.
constexpr uint64_t kGuard = 64 << 20;

uint64_t Pages(uint64_t bytes) { return (bytes + kPage) / kPage * kPage; }

}  // namespace

void* Device::Allocate(uint64_t bytes) {
  constexpr int kKind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, Pages(bytes) + kGuard, PROT_NONE, kKind, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (mprotect(memory, Pages(bytes), PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, Pages(bytes) + kGuard);
    return nullptr;
  }
  Add(reinterpret_cast<uint64_t>(memory), bytes, "", false);
  return memory;
}

void Device::Free(void* memory) {
  const auto found = allocations_.find(reinterpret_cast<uint64_t>(memory));
  if (found == allocations_.end()) return;
  munmap(memory, Pages(found->second.bytes) + kGuard);
  allocations_.erase(found);
}

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
