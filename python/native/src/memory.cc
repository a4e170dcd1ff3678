#include "memory.h"

#include <dlfcn.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "apart.h"
#include "error.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kSlack = 2;  // a block serves tensors of half its size and more
constexpr int kPooled = 2;    // TVM's number for allocators that keep memory

// What TVM takes for an allocator: the classes Buffer and Allocator of its header
// tvm/runtime/memory/memory_manager.h, member by member. Nothing here may be of this library's own
// C++ library where TVM calls: strings have the layout of GCC's, exceptions are thrown by it.
struct Text {
  const char* data;
  size_t size;
};

using Throw = void (*)(const char* message);
Throw throw_in_tvm = nullptr;

// No frame between this and TVM may have something to destroy.
[[noreturn]] void raise(const char* what, size_t bytes) {
  static thread_local char message[80];
  std::snprintf(message, sizeof message, "memory: %zu bytes %s.", bytes, what);
  throw_in_tvm(message);
  std::abort();
}

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
  virtual Buffer Alloc(DLDevice device, ffi::Shape shape, DLDataType dtype, const Text& scope) = 0;
  virtual void* CreateView(const Buffer& buffer, ffi::Shape, DLDataType, const Text&) = 0;
  virtual void FreeView(DLDevice, void*) = 0;
  virtual void Free(const Buffer& buffer) = 0;
  virtual void Clear() = 0;
  virtual size_t UsedMemory() const = 0;

 protected:
  virtual bool AllowMemoryScope(const Text& scope) const = 0;

 private:
  int type_ = kPooled;
};

class Blocks : public Allocator {
 public:
  // No block if there is none of so many bytes.
  Block take(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return {};
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
    if (!data) return {};
    used_ += size;
    return {data, size};
  }

  void give(const Block& block) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.emplace(block.size, block.data);
  }

  Buffer Alloc(DLDevice device, size_t bytes, size_t, DLDataType) override {
    Block block = take(bytes);
    if (!block.data) raise("refused", bytes);
    return {block.data, block.size, device, kPooled};
  }

  Buffer Alloc(DLDevice device, ffi::Shape shape, DLDataType dtype, const Text& scope) override {
    size_t bytes = ffi::GetDataSize(shape.Product(), dtype);
    if (!AllowMemoryScope(scope)) raise("of a scope that is not global", bytes);
    return Alloc(device, bytes, kAlignment, dtype);
  }

  void* CreateView(const Buffer& buffer, ffi::Shape, DLDataType, const Text&) override {
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
  bool AllowMemoryScope(const Text& scope) const override {
    return scope.size == 0 || std::string_view(scope.data, scope.size) == "global";
  }

 private:
  using Idle = std::multimap<size_t, void*>;

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

Block take_block(size_t bytes) {
  Block found = blocks().take(bytes);
  if (found.data) return found;
  throw Error(TVM_SPARSE_FAILED, "memory", std::to_string(bytes) + " bytes refused");
}

void give_block(const Block& block) { blocks().give(block); }

void share_blocks(void* tvm) {
  // std::__throw_runtime_error(const char*) of the C++ library that TVM has.
  throw_in_tvm = reinterpret_cast<Throw>(dlsym(tvm, "_ZSt21__throw_runtime_errorPKc"));
  if (throw_in_tvm) publish("DeviceAllocator.", ffi::Function::FromTyped(allocator));
}

}  // namespace tvm_sparse
