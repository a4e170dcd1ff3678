#include "memory.h"

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "error.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kSlack = 2;  // a block serves tensors of half its size and more
constexpr int kPooled = 2;    // TVM's number for allocators that keep memory

// What TVM takes for an allocator: the classes Buffer and Allocator of its header
// tvm/runtime/memory/memory_manager.h, member by member.
struct Buffer {
  void* data = nullptr;
  size_t size = 0;
  DLDevice device{kDLCPU, 0};
  int type = kPooled;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Buffer Alloc(DLDevice device, size_t bytes, size_t alignment, DLDataType) = 0;
  virtual Buffer Alloc(DLDevice device, ffi::Shape shape, DLDataType dtype,
                       const std::string& scope) = 0;
  virtual void* CreateView(const Buffer& buffer, ffi::Shape, DLDataType, const std::string&) = 0;
  virtual void FreeView(DLDevice, void*) = 0;
  virtual void Free(const Buffer& buffer) = 0;
  virtual void Clear() = 0;
  virtual size_t UsedMemory() const = 0;

 protected:
  virtual bool AllowMemoryScope(const std::string& scope) const = 0;

 private:
  int type_ = kPooled;
};

class Blocks : public Allocator {
 public:
  Block take(size_t bytes) {
    if (bytes > SIZE_MAX / 2) throw refused(bytes);
    size_t size = std::max<size_t>(1, (bytes + kPage - 1) / kPage) * kPage;
    std::lock_guard<std::mutex> lock(mutex_);
    auto idle = idle_.lower_bound(size);
    if (idle != idle_.end() && idle->first <= kSlack * size) {
      Block found{idle->second, idle->first};
      idle_.erase(idle);
      return found;
    }
    // The largest block that is too small has been outgrown.
    if (idle != idle_.begin()) release(std::prev(idle));
    void* data = std::aligned_alloc(kAlignment, size);
    if (!data) {
      release_all();
      data = std::aligned_alloc(kAlignment, size);
    }
    if (!data) throw refused(size);
    used_ += size;
    return {data, size};
  }

  void give(const Block& block) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.emplace(block.size, block.data);
  }

  Buffer Alloc(DLDevice device, size_t bytes, size_t, DLDataType) override {
    Block block = take(bytes);
    return {block.data, block.size, device, kPooled};
  }

  Buffer Alloc(DLDevice device, ffi::Shape shape, DLDataType dtype,
               const std::string& scope) override {
    if (!AllowMemoryScope(scope))
      throw Error(TVM_SPARSE_FAILED, "memory", "scope " + shown(scope), "global");
    return Alloc(device, ffi::GetDataSize(shape.Product(), dtype), kAlignment, dtype);
  }

  void* CreateView(const Buffer& buffer, ffi::Shape, DLDataType, const std::string&) override {
    return buffer.data;
  }

  void FreeView(DLDevice, void*) override {}

  void Free(const Buffer& buffer) override { give({buffer.data, buffer.size}); }

  void Clear() override {
    std::lock_guard<std::mutex> lock(mutex_);
    release_all();
  }

  size_t UsedMemory() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return used_;
  }

 protected:
  bool AllowMemoryScope(const std::string& scope) const override {
    return scope.empty() || scope == "global";
  }

 private:
  using Idle = std::multimap<size_t, void*>;

  static Error refused(size_t bytes) {
    return Error(TVM_SPARSE_FAILED, "memory", std::to_string(bytes) + " bytes refused");
  }

  void release(Idle::iterator block) {
    used_ -= block->first;
    std::free(block->second);
    idle_.erase(block);
  }

  void release_all() {
    while (!idle_.empty()) release(idle_.begin());
  }

  mutable std::mutex mutex_;
  Idle idle_;  // by size
  size_t used_ = 0;
};

Blocks& blocks() {
  static auto* all = new Blocks;  // tensors may outlive everything
  return *all;
}

// TVM asks for an allocator by the name of a device, which is empty for most; null is its own.
void* allocator(DLDevice device, int type) {
  return device.device_type == kDLCPU && type == kPooled ? &blocks() : nullptr;
}

}  // namespace

Block take_block(size_t bytes) { return blocks().take(bytes); }

void give_block(const Block& block) { blocks().give(block); }

void share_blocks() {
  constexpr bool kOverride = true;  // a second copy of this library is no error
  ffi::Function::SetGlobal("DeviceAllocator.", ffi::Function::FromTyped(allocator), kOverride);
}

}  // namespace tvm_sparse
