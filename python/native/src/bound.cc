#include "bound.h"

#include <dlfcn.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <string>

#include "apart.h"
#include "engine.h"
#include "error.h"
#include "gpu.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr const char* kCapture = "vm.builtin.cuda_graph.run_or_capture";
constexpr const char* kAllocate = "vm.builtin.alloc_storage";
constexpr int kRelaxed = 2;           // a pool that is empty may still ask the driver for memory
constexpr unsigned kNonBlocking = 1;  // work on the default stream goes on meanwhile

// What is allocated in this thread while a call is captured; null while none is.
thread_local std::vector<ffi::Any>* keeping = nullptr;

// A function of CUDA's runtime, which the process has opened.
template <typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name));
  int status = function ? function(arguments...) : -1;
  if (status == 0) return;
  throw Error(TVM_SPARSE_FAILED, "bind", std::string(name) + " failed: " + std::to_string(status),
              "a program that a CUDA graph can hold", "call it without binding");
}

// Its own graph is part of the one that is captured: what it holds is launched one by one.
ffi::Function launching(ffi::Function own) {
  return ffi::Function::FromPacked([own](ffi::PackedArgs arguments, ffi::Any* result) {
    if (!keeping) return own.CallPacked(arguments, result);
    auto operands = arguments[2].cast<ffi::Array<ffi::Any>>();
    std::vector<ffi::AnyView> packed{arguments[0], arguments[1]};
    packed.insert(packed.end(), operands.begin(), operands.end());
    registered("vm.builtin.invoke_closure")
        .CallPacked(packed.data(), static_cast<int32_t>(packed.size()), result);
  });
}

ffi::Function allocating(ffi::Function own) {
  return ffi::Function::FromPacked([own](ffi::PackedArgs arguments, ffi::Any* result) {
    own.CallPacked(arguments, result);
    if (keeping) keeping->push_back(*result);
  });
}

// The stream that a call is captured on, which the thread launches on meanwhile.
class Capturing {
 public:
  explicit Capturing(std::vector<ffi::Any>* kept) {
    cuda("cudaStreamCreateWithFlags", &stream_, kNonBlocking);
    cuda("cudaStreamBeginCapture", stream_, kRelaxed);
    TVMFFIEnvSetStream(kDLCUDA, 0, stream_, &before_);
    keeping = kept;
  }
  ~Capturing() {
    try {
      if (void* unfinished = ended()) cuda("cudaGraphDestroy", unfinished);
      cuda("cudaStreamDestroy", stream_);
    } catch (const Error&) {  // another error is under way, which broke the capture
      reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "cudaGetLastError"))();
    }
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  // The graph; null when it was asked for before.
  void* ended() {
    void* graph = nullptr;
    if (over_) return graph;
    over_ = true;
    keeping = nullptr;
    TVMFFIEnvSetStream(kDLCUDA, 0, before_, nullptr);
    cuda("cudaStreamEndCapture", stream_, &graph);
    return graph;
  }

 private:
  void *stream_ = nullptr, *before_ = nullptr;
  bool over_ = false;
};

std::vector<ffi::Tensor> called(const ffi::Function& main,
                                const std::vector<ffi::Tensor>& arguments) {
  std::vector<ffi::AnyView> packed(arguments.begin(), arguments.end());
  ffi::Any result;
  main.CallPacked(packed.data(), static_cast<int32_t>(packed.size()), &result);
  if (auto tensor = result.try_cast<ffi::Tensor>()) return {*tensor};
  auto several = result.cast<ffi::Array<ffi::Tensor>>();
  return {several.begin(), several.end()};
}

void require_own(const ffi::Tensor& output, const std::vector<ffi::Tensor>& arguments) {
  for (const ffi::Tensor& argument : arguments) {
    if (!inside(output, argument)) continue;
    throw Error(TVM_SPARSE_FAILED, "bind", "the program hands out an input or a weight",
                "outputs with memory of their own", "call it without binding");
  }
}

}  // namespace

void watch_machines() {
  static const bool once = [] {
    publish(kCapture, launching(registered(kCapture)));
    publish(kAllocate, allocating(registered(kAllocate)));
    return true;
  }();
  (void)once;
}

Bound::Bound(const ffi::Function& main, const std::vector<ffi::Tensor>& arguments)
    : main_(main), arguments_(arguments) {
  called(main_, arguments_);
  capture();
  for (const ffi::Tensor& output : outputs_) require_own(output, arguments_);
}

void Bound::capture() {
  Capturing capturing(&kept_);
  outputs_ = called(main_, arguments_);
  void* graph = capturing.ended();
  cuda("cudaGraphInstantiate", &graph_, graph, 0ULL);
  cuda("cudaGraphDestroy", graph);
}

Bound::~Bound() {
  try {
    if (graph_) cuda("cudaGraphExecDestroy", graph_);
  } catch (const Error&) {  // the process ends, and CUDA was before it
  }
}

void Bound::replay() const { cuda("cudaGraphLaunch", graph_, TVMFFIEnvGetStream(kDLCUDA, 0)); }

ffi::Array<ffi::Any> bound(ffi::Function main, ffi::Array<ffi::Tensor> arguments) {
  auto made = std::make_shared<const Bound>(
      main, std::vector<ffi::Tensor>{arguments.begin(), arguments.end()});
  ffi::Array<ffi::Any> result{apart(ffi::Function::FromTyped([made]() { made->replay(); }))};
  for (const ffi::Tensor& output : made->outputs()) result.push_back(output);
  return result;
}

}  // namespace tvm_sparse
