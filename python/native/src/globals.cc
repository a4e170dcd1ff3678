// What Python takes from this library: functions of TVM's registry.
#include <tvm/ffi/function.h>

#include "apart.h"
#include "blas.h"
#include "bound.h"
#include "crew.h"
#include "dnn.h"
#include "engine.h"
#include "gpu.h"
#include "team.h"
#include "two_four.h"

namespace tvm_sparse {
namespace {

TVM_FFI_STATIC_INIT_BLOCK() {
  using tvm::ffi::Function;
  publish("tvm_sparse.start_engine", Function::FromTyped(start_engine));
  publish("tvm_sparse.empty", Function::FromTyped(empty));
  publish("tvm_sparse.together", Function::FromTyped(together));
  publish("tvm_sparse.use_threads", Function::FromTyped(use_threads));
  publish("tvm_sparse.threads_used", Function::FromTyped(threads_used));
  publish("tvm_sparse.taken_by_python", Function::FromTyped(taken_by_python));
  publish("tvm_sparse.watch_machines", Function::FromTyped(watch_machines));
  publish("tvm_sparse.bound", Function::FromTyped(bound));
  publish("tvm_sparse.blas.linear", Function::FromTyped(linear));
  publish("tvm_sparse.blas.library", Function::FromTyped(blas_library));
  publish("tvm_sparse.dnn.convolution", Function::FromPacked(convolution));
  publish("tvm_sparse.dnn.library", Function::FromTyped(dnn_library));
  publish("tvm_sparse.two_four.compressed", Function::FromTyped(compressed));
  publish("tvm_sparse.two_four.linear", Function::FromTyped(two_four_linear));
  publish("tvm_sparse.two_four.library", Function::FromTyped(two_four_library));
}

}  // namespace
}  // namespace tvm_sparse
