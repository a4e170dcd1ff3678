// The C interface: nothing that is thrown leaves it.
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine.h"
#include "error.h"
#include "gpu.h"
#include "session.h"
#include "threads.h"
#include "trace.h"
#include "tvm_sparse/runtime.h"

namespace {

using tvm_sparse::Error;
using tvm_sparse::Session;
using tvm_sparse::TensorSpec;

thread_local std::string last_error;

// Specifications as C sees them.
class Specs {
 public:
  explicit Specs(const std::vector<TensorSpec>& specs) : records_(specs.size()) {
    for (size_t i = 0; i < specs.size(); ++i) {
      for (const auto& extent : specs[i].shape) {
        records_[i].shape.push_back(extent.symbol.empty() ? extent.length : -1);
        records_[i].symbols.push_back(extent.symbol.empty() ? nullptr : extent.symbol.c_str());
      }
      records_[i].view = {specs[i].name.c_str(), specs[i].dtype.c_str(),
                          static_cast<int32_t>(specs[i].shape.size()), records_[i].shape.data(),
                          records_[i].symbols.data()};
    }
  }

  const tvm_sparse_spec* at(size_t index) const {
    return index < records_.size() ? &records_[index].view : nullptr;
  }

 private:
  struct Record {
    std::vector<int64_t> shape;
    std::vector<const char*> symbols;
    tvm_sparse_spec view;
  };

  std::vector<Record> records_;
};

tvm_sparse_status failed(tvm_sparse_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

// Run `body`; turn whatever it throws into a status.
template <typename Body>
tvm_sparse_status guarded(Body body) noexcept {
  try {
    body();
    return TVM_SPARSE_OK;
  } catch (const Error& error) {
    return failed(error.status(), error.what());
  } catch (const tvm::ffi::Error& error) {
    return failed(TVM_SPARSE_FAILED, error.what());
  } catch (const std::exception& error) {
    return failed(TVM_SPARSE_FAILED, error.what());
  } catch (...) {
    return failed(TVM_SPARSE_FAILED, "unknown error");
  }
}

void require(bool sound, const char* what) {
  if (!sound) throw Error(TVM_SPARSE_BAD_ARGUMENT, what, "a null pointer or a wrong size");
}

}  // namespace

struct tvm_sparse_library {
  tvm_sparse_library(std::shared_ptr<const tvm_sparse::Program> program, int threads)
      : session(std::move(program), threads),
        inputs(session.program()->manifest.inputs),
        outputs(session.program()->manifest.outputs) {}

  Session session;
  Specs inputs, outputs;
};

struct tvm_sparse_outputs {
  struct Record {
    tvm::ffi::Tensor tensor;
    std::string dtype;
    std::vector<int64_t> shape;
    tvm_sparse_tensor view;
  };

  explicit tvm_sparse_outputs(const std::vector<tvm::ffi::Tensor>& tensors) {
    records.reserve(tensors.size());
    for (const auto& tensor : tensors) {
      auto shape = tensor.shape();
      records.push_back({tensor, tvm_sparse::dtype_name(tensor), {shape.begin(), shape.end()}, {}});
      Record& last = records.back();
      bool gpu = tensor.device().device_type == kDLCUDA;
      last.view = {last.dtype.c_str(), tensor.ndim(), last.shape.data(), tensor.data_ptr(),
                   gpu ? TVM_SPARSE_CUDA : TVM_SPARSE_HOST};
    }
  }

  std::vector<Record> records;
};

struct tvm_sparse_bound {
  explicit tvm_sparse_bound(std::unique_ptr<const tvm_sparse::Bound> made)
      : call(std::move(made)), outputs(call->outputs()) {}

  std::unique_ptr<const tvm_sparse::Bound> call;
  tvm_sparse_outputs outputs;
};

int tvm_sparse_abi_version(void) { return TVM_SPARSE_ABI_VERSION; }

const char* tvm_sparse_version(void) { return TVM_SPARSE_VERSION; }

const char* tvm_sparse_last_error(void) { return last_error.c_str(); }

tvm_sparse_options tvm_sparse_default_options(void) {
  return {sizeof(tvm_sparse_options), 1, 0, 0};
}

tvm_sparse_status tvm_sparse_open(const char* directory, const tvm_sparse_options* options,
                                  tvm_sparse_library** library) {
  return guarded([&] {
    require(library != nullptr, "library");
    *library = nullptr;
    require(directory != nullptr, "directory");
    require(!options || options->size == sizeof(tvm_sparse_options), "options");
    auto wanted = options ? *options : tvm_sparse_default_options();
    *library = new tvm_sparse_library(tvm_sparse::open_artifact(directory, wanted), wanted.threads);
  });
}

tvm_sparse_status tvm_sparse_clone(const tvm_sparse_library* library, tvm_sparse_library** clone) {
  return tvm_sparse_clone_with_threads(library, library ? library->session.threads() : 0, clone);
}

tvm_sparse_status tvm_sparse_clone_with_threads(const tvm_sparse_library* library, int threads,
                                                tvm_sparse_library** clone) {
  return guarded([&] {
    require(clone != nullptr, "clone");
    *clone = nullptr;
    require(library != nullptr, "library");
    if (threads) tvm_sparse::choose_threads(threads, 0);
    *clone = new tvm_sparse_library(library->session.program(), threads);
  });
}

void tvm_sparse_close(tvm_sparse_library* library) {
  guarded([&] { delete library; });
}

size_t tvm_sparse_num_inputs(const tvm_sparse_library* library) {
  return library ? library->session.program()->manifest.inputs.size() : 0;
}

size_t tvm_sparse_num_outputs(const tvm_sparse_library* library) {
  return library ? library->session.program()->manifest.outputs.size() : 0;
}

const tvm_sparse_spec* tvm_sparse_input(const tvm_sparse_library* library, size_t index) {
  return library ? library->inputs.at(index) : nullptr;
}

const tvm_sparse_spec* tvm_sparse_output(const tvm_sparse_library* library, size_t index) {
  return library ? library->outputs.at(index) : nullptr;
}

tvm_sparse_status tvm_sparse_run(tvm_sparse_library* library, const tvm_sparse_tensor* inputs,
                                 size_t count, tvm_sparse_outputs** outputs) {
  return tvm_sparse_run_on(library, nullptr, inputs, count, outputs);
}

tvm_sparse_status tvm_sparse_run_on(tvm_sparse_library* library, void* stream,
                                    const tvm_sparse_tensor* inputs, size_t count,
                                    tvm_sparse_outputs** outputs) {
  return guarded([&] {
    require(outputs != nullptr, "outputs");
    *outputs = nullptr;
    require(library != nullptr, "library");
    require(inputs != nullptr || count == 0, "inputs");
    if (stream && !library->session.program()->manifest.on_gpu()) {
      throw Error(TVM_SPARSE_BAD_ARGUMENT, "stream", "given to a program for CPUs", "null");
    }
    *outputs = new tvm_sparse_outputs(library->session.run(inputs, count, stream));
  });
}

tvm_sparse_status tvm_sparse_bind(tvm_sparse_library* library, void* stream,
                                  const tvm_sparse_tensor* inputs, size_t count,
                                  tvm_sparse_bound** bound) {
  return guarded([&] {
    require(bound != nullptr, "bound");
    *bound = nullptr;
    require(library != nullptr, "library");
    require(inputs != nullptr || count == 0, "inputs");
    *bound = new tvm_sparse_bound(library->session.bind(inputs, count, stream));
  });
}

tvm_sparse_status tvm_sparse_replay(const tvm_sparse_bound* bound, void* stream) {
  return guarded([&] {
    require(bound != nullptr, "bound");
    tvm_sparse::Turn turn(stream);
    bound->call->replay();
  });
}

const tvm_sparse_outputs* tvm_sparse_bound_outputs(const tvm_sparse_bound* bound) {
  return bound ? &bound->outputs : nullptr;
}

void tvm_sparse_bound_free(tvm_sparse_bound* bound) {
  guarded([&] { delete bound; });
}

tvm_sparse_status tvm_sparse_trace(const tvm_sparse_library* library,
                                   const tvm_sparse_tensor* inputs, size_t count, int calls,
                                   const char* path) {
  return guarded([&] {
    require(library != nullptr, "library");
    require(inputs != nullptr || count == 0, "inputs");
    require(calls > 0, "calls");
    require(path != nullptr, "path");
    const Session& session = library->session;
    tvm_sparse::write_trace(session.program(), session.threads(), inputs, count, calls, path);
  });
}

size_t tvm_sparse_outputs_count(const tvm_sparse_outputs* outputs) {
  return outputs ? outputs->records.size() : 0;
}

const tvm_sparse_tensor* tvm_sparse_outputs_get(const tvm_sparse_outputs* outputs, size_t index) {
  return outputs && index < outputs->records.size() ? &outputs->records[index].view : nullptr;
}

void tvm_sparse_outputs_free(tvm_sparse_outputs* outputs) {
  guarded([&] { delete outputs; });
}
