// What Python takes from this library: functions of TVM's registry.
#include <tvm/ffi/function.h>

#include "blas.h"
#include "crew.h"
#include "engine.h"
#include "gpu.h"
#include "team.h"

namespace tvm_sparse {
namespace {

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace ffi = tvm::ffi;
  constexpr bool kOverride = true;  // a second copy of this library is no error
  ffi::Function::SetGlobal("tvm_sparse.start_engine", ffi::Function::FromTyped(start_engine),
                           kOverride);
  ffi::Function::SetGlobal("tvm_sparse.empty", ffi::Function::FromTyped(empty), kOverride);
  ffi::Function::SetGlobal("tvm_sparse.together", ffi::Function::FromTyped(together), kOverride);
  ffi::Function::SetGlobal("tvm_sparse.use_threads", ffi::Function::FromTyped(use_threads),
                           kOverride);
  ffi::Function::SetGlobal("tvm_sparse.threads_used", ffi::Function::FromTyped(threads_used),
                           kOverride);
  ffi::Function::SetGlobal("tvm_sparse.taken_by_python", ffi::Function::FromTyped(taken_by_python),
                           kOverride);
  ffi::Function::SetGlobal("tvm_sparse.blas.linear", ffi::Function::FromTyped(linear), kOverride);
  ffi::Function::SetGlobal("tvm_sparse.blas.library", ffi::Function::FromTyped(blas_library),
                           kOverride);
}

}  // namespace
}  // namespace tvm_sparse
