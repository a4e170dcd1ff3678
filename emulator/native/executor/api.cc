#include "api.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "machine.h"
#include "report.h"
#include "tensor_map.h"

namespace ptx {
namespace {

struct Session {
  std::mutex mutex;
  Device device;
  uint64_t most_blocks = 0;
  std::vector<Launched> launches;
  std::string report;
};

Session& TheSession() {
  static auto* session = new Session;  // outlives what unloads modules at exit
  return *session;
}

void Say(const std::string& what, char* error, size_t size) {
  if (size == 0) return;
  const size_t length = std::min(what.size(), size - 1);
  std::memcpy(error, what.data(), length);
  error[length] = '\0';
}

void Check(const Launch& launch) {
  const std::string& name = launch.kernel->name;
  if (launch.block.count() == 0 || launch.grid.count() == 0)
    throw std::runtime_error(name + ": an empty launch");
  if (launch.block.count() > launch.kernel->most_threads) {
    throw std::runtime_error(name + ": " + std::to_string(launch.block.count()) +
                             " threads a block, it allows " +
                             std::to_string(launch.kernel->most_threads));
  }
}

void RunGrid(Launch* launch, uint64_t most_blocks) {
  Machine machine(launch);
  const uint64_t blocks = launch->grid.count();
  const uint64_t run = most_blocks == 0 ? blocks : std::min(blocks, most_blocks);
  for (uint64_t i = 0; i < run; ++i) {
    const uint64_t at = run == 1 ? 0 : i * (blocks - 1) / (run - 1);  // the first and the last too
    const Extents& grid = launch->grid;
    machine.RunBlock({static_cast<uint32_t>(at % grid.x),
                      static_cast<uint32_t>(at / grid.x % grid.y),
                      static_cast<uint32_t>(at / grid.x / grid.y)});
  }
}

}  // namespace
}  // namespace ptx

using ptx::TheSession;

void* ts_ptx_load(const char* text, char* error, size_t size) {
  try {
    auto module = std::make_unique<ptx::Module>(ptx::Load(text));
    std::lock_guard<std::mutex> lock(TheSession().mutex);
    for (auto& [name, data] : module->globals) {
      TheSession().device.Add(reinterpret_cast<uint64_t>(data.data()), data.size(), name, true);
    }
    return module.release();
  } catch (const std::exception& problem) {
    ptx::Say(problem.what(), error, size);
    return nullptr;
  }
}

void ts_ptx_unload(void* module) {
  auto* own = static_cast<ptx::Module*>(module);
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  for (auto& [name, data] : own->globals)
    TheSession().device.Remove(reinterpret_cast<uint64_t>(data.data()));
  delete own;
}

const void* ts_ptx_kernel(const void* module, const char* name) {
  const auto& kernels = static_cast<const ptx::Module*>(module)->kernels;
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : &found->second;
}

uint32_t ts_ptx_parameter(const void* kernel, int index) {
  const auto& params = static_cast<const ptx::Kernel*>(kernel)->params;
  return index < static_cast<int>(params.size()) ? params[index].bytes : 0;
}

int ts_ptx_launch(const void* module, const void* kernel, const uint32_t* grid,
                  const uint32_t* block, uint64_t shared, const void* const* arguments, char* error,
                  size_t size) {
  ptx::Session& session = TheSession();
  std::lock_guard<std::mutex> lock(session.mutex);
  ptx::Launch launch;
  launch.device = &session.device;
  launch.module = static_cast<const ptx::Module*>(module);
  launch.kernel = static_cast<const ptx::Kernel*>(kernel);
  launch.grid = {grid[0], grid[1], grid[2]};
  launch.block = {block[0], block[1], block[2]};
  launch.dynamic_shared = shared;
  launch.params.resize(launch.kernel->param_bytes + 8);
  for (size_t i = 0; i < launch.kernel->params.size(); ++i) {
    const ptx::Parameter& param = launch.kernel->params[i];
    std::memcpy(launch.params.data() + param.offset, arguments[i], param.bytes);
  }
  try {
    ptx::Check(launch);
    ptx::RunGrid(&launch, session.most_blocks);
  } catch (const std::exception& problem) {
    ptx::Say(problem.what(), error, size);
    return 1;
  }
  session.launches.push_back({launch.kernel->name, launch.grid, launch.block,
                              launch.kernel->shared_bytes + shared, launch.counters});
  return 0;
}

void* ts_ptx_allocate(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  return TheSession().device.Allocate(bytes);
}

void ts_ptx_free(void* memory) {
  if (memory == nullptr) return;
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  TheSession().device.Free(memory);
}

void ts_ptx_wrote(const void* memory, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  TheSession().device.Wrote(reinterpret_cast<uint64_t>(memory), bytes);
}

int ts_ptx_holds(const void* memory, uint64_t bytes, int written) {
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  const auto address = reinterpret_cast<uint64_t>(memory);
  const ptx::Allocation* found = TheSession().device.Find(address);
  if (found == nullptr || address + bytes > found->base + found->bytes) return 0;
  return !written || ptx::IsWritten(*found, address, bytes);
}

int ts_ptx_tensor_map(void* map, const void* base, int rank, int bytes, const uint64_t* sizes,
                      const uint64_t* strides, const uint32_t* box, int swizzle, char* error,
                      size_t size) {
  ptx::TensorMap made{};
  made.base = reinterpret_cast<uint64_t>(base);
  made.rank = static_cast<uint8_t>(rank);
  made.bytes = static_cast<uint8_t>(bytes);
  made.swizzle = static_cast<uint8_t>(swizzle);
  for (int i = 0; i < std::min(rank, ptx::kMostDimensions); ++i) {
    made.sizes[i] = sizes[i];
    made.box[i] = box[i];
    if (i > 0) made.strides[i - 1] = strides[i - 1];
  }
  try {
    made = ptx::Encoded(made);
  } catch (const std::exception& problem) {
    ptx::Say(problem.what(), error, size);
    return 1;
  }
  std::memset(map, 0, ptx::kTensorMapBytes);
  std::memcpy(map, &made, sizeof made);
  return 0;
}

void ts_ptx_options(int sanitize, uint64_t most_blocks) {
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  TheSession().device.sanitize = sanitize != 0;
  TheSession().most_blocks = most_blocks;
}

const char* ts_ptx_report() {
  ptx::Session& session = TheSession();
  std::lock_guard<std::mutex> lock(session.mutex);
  session.report = ptx::ReportText(session.launches, session.device.findings());
  return session.report.c_str();
}

void ts_ptx_forget() {
  std::lock_guard<std::mutex> lock(TheSession().mutex);
  TheSession().launches.clear();
  TheSession().device.Forget();
}
