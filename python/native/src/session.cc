#include "session.h"

#include <algorithm>
#include <cstdint>

#include "apart.h"
#include "crew.h"
#include "error.h"
#include "gpu.h"
#include "inputs.h"
#include "team.h"
#include "threads.h"
#include "two_four.h"
#include "verification.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

// `tensor`, copied if it lies in borrowed memory: a program may hand out its input.
ffi::Tensor kept(const ffi::Tensor& tensor, const std::vector<ffi::Tensor>& arguments) {
  for (const ffi::Tensor& argument : arguments) {
    if (!inside(tensor, argument)) continue;
    if (tensor.device().device_type == kDLCUDA) return copied(tensor, kGpu);
    auto shape = tensor.shape();
    return owned(tensor.data_ptr(), {shape.begin(), shape.end()}, dtype_name(tensor));
  }
  return tensor;
}

// The function to call. Native code of all steps is `main`; instruments see the one that is not.
ffi::Function main_of(const ffi::Module& machine, bool seen) {
  auto stepped = seen ? machine->GetFunction("stepped") : ffi::Optional<ffi::Function>();
  return stepped.has_value() ? stepped.value() : machine->GetFunction("main").value();
}

// `weights`, and behind them what a library makes of them once. Functions of the program unpack one
// each, for a moment. It wants a turn.
std::vector<ffi::Tensor> prepared(const ffi::Module& module, std::vector<ffi::Tensor> weights) {
  ffi::Module machine = new_machine(module, true);
  const std::vector<ffi::AnyView> packed(weights.begin(), weights.end());
  std::vector<ffi::Tensor> made;
  while (auto unpack = machine->GetFunction("prepare" + std::to_string(made.size()))) {
    ffi::Any dense;
    apart(unpack.value()).CallPacked(packed.data(), static_cast<int32_t>(packed.size()), &dense);
    made.push_back(compressed(dense.cast<ffi::Tensor>()));
  }
  // What was unpacked is not wanted any more.
  if (!made.empty()) registered("vm.builtin.memory_manager.clear")();
  weights.insert(weights.end(), made.begin(), made.end());
  return weights;
}

}  // namespace

Session::Session(std::shared_ptr<const Program> program, int threads,
                 ffi::Optional<ffi::Function> instrument)
    : program_(std::move(program)),
      threads_(threads),
      machine_(new_machine(program_->module, program_->manifest.on_gpu())),
      main_(together(main_of(machine_, instrument.has_value()))) {
  if (instrument.has_value()) {
    apart(machine_->GetFunction("set_instrument").value())(apart(instrument.value()));
  }
  size_t given = program_->manifest.inputs.size() + program_->weights.size();
  auto arities = apart(machine_->GetFunction("get_function_arity").value());
  auto arity = arities("main").cast<int64_t>();
  if (static_cast<size_t>(arity) != given) {
    throw bad_artifact("main", "takes " + std::to_string(arity) + " tensors",
                       std::to_string(given) + " inputs and weights as described");
  }
}

std::vector<ffi::Tensor> Session::run(const tvm_sparse_tensor* inputs, size_t count, void* stream) {
  if (!program_->manifest.on_gpu()) return checked(accepted(program_->manifest, inputs, count));
  Turn turn(stream);
  std::vector<ffi::Tensor> arguments = accepted(program_->manifest, inputs, count);
  bool stays = count && inputs[0].device == TVM_SPARSE_CUDA;
  move_to_gpu(&arguments);
  std::vector<ffi::Tensor> results = checked(std::move(arguments));
  if (stays) return results;
  for (ffi::Tensor& result : results) result = copied(result, kHost);
  return results;
}

std::unique_ptr<const Bound> Session::bind(const tvm_sparse_tensor* inputs, size_t count,
                                           void* stream) {
  if (!program_->manifest.on_gpu()) {
    throw Error(TVM_SPARSE_BAD_ARGUMENT, "bind", "a program for CPUs", "one for a GPU");
  }
  Turn turn(stream);
  std::vector<ffi::Tensor> arguments = accepted(program_->manifest, inputs, count);
  for (size_t i = 0; i < count; ++i) {
    if (inputs[i].device == TVM_SPARSE_CUDA && arguments[i].data_ptr() == inputs[i].data) continue;
    throw Error(TVM_SPARSE_BAD_TENSOR, "input " + program_->manifest.inputs[i].name,
                "would be copied", "memory of the GPU that begins on a multiple of 64 bytes");
  }
  for (const ffi::Tensor& weight : program_->weights) arguments.push_back(weight);
  std::lock_guard<std::mutex> lock(mutex_);
  return std::make_unique<const Bound>(main_, arguments);
}

// Calls take turns, so the next one's copies follow what this one computes.
void Session::move_to_gpu(std::vector<ffi::Tensor>* inputs) {
  staging_.resize(inputs->size());
  for (size_t i = 0; i < inputs->size(); ++i) {
    ffi::Tensor& input = (*inputs)[i];
    if (input.device().device_type == kDLCUDA) continue;
    auto& kept = staging_[i];
    bool fits = kept.has_value() && std::equal(input.shape().begin(), input.shape().end(),
                                               kept.value().shape().begin());
    if (!fits) kept = empty_on_gpu(input.shape(), input.dtype());
    copy_to_gpu(input, kept.value());
    input = kept.value();
  }
}

std::vector<ffi::Tensor> Session::checked(std::vector<ffi::Tensor> arguments) {
  for (const ffi::Tensor& weight : program_->weights) arguments.push_back(weight);
  std::vector<ffi::Tensor> results = called(arguments);
  if (results.size() != program_->manifest.outputs.size()) {
    throw Error(TVM_SPARSE_FAILED, "main", std::to_string(results.size()) + " outputs",
                std::to_string(program_->manifest.outputs.size()));
  }
  for (ffi::Tensor& result : results) result = kept(result, arguments);
  return results;
}

std::vector<ffi::Tensor> Session::called(const std::vector<ffi::Tensor>& arguments) {
  std::vector<ffi::AnyView> packed(arguments.begin(), arguments.end());
  std::lock_guard<std::mutex> lock(mutex_);
  struct Restored {
    int before;
    ~Restored() { use_threads(before); }
  } restored{use_threads(threads_)};
  ffi::Any result;
  main_.CallPacked(packed.data(), static_cast<int32_t>(packed.size()), &result);
  if (auto tensor = result.try_cast<ffi::Tensor>()) return {*tensor};
  auto several = result.cast<ffi::Array<ffi::Tensor>>();
  return {several.begin(), several.end()};
}

std::shared_ptr<const Program> open_artifact(const std::string& directory,
                                             const tvm_sparse_options& options) {
  Verified verified = verify(directory, options.verify, options.copy);
  choose_threads(options.threads, verified.manifest.threads);
  start_engine();
  bool gpu = verified.manifest.on_gpu();
  const Code& code = verified.manifest.programs[verified.chosen];
  if (gpu) require_gpu(code.target.gpu_archs, directory);
  std::string name = verified.library.loadable_name();
  ffi::Module module = open_program(name);
  if (verified.section) name = verified.section->loadable_name();
  auto* section = static_cast<char*>(weights_of(name));
  std::vector<ffi::Tensor> weights;
  for (const Weight& weight : code.weights) {
    weights.push_back(borrowed(section + weight.offset, weight.shape, weight.dtype, kHost));
  }
  if (gpu) {
    Turn turn(nullptr);
    for (ffi::Tensor& weight : weights) weight = copied(weight, kGpu);
    weights = prepared(module, std::move(weights));
  }
  return std::make_shared<const Program>(
      Program{std::move(verified.manifest), module, std::move(weights)});
}

}  // namespace tvm_sparse
