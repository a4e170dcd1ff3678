// What Python takes from this library: functions of TVM's registry.
#include <tvm/ffi/function.h>

#include "engine.h"
#include "team.h"

namespace tvm_sparse {
namespace {

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace ffi = tvm::ffi;
  constexpr bool kOverride = true;  // a second copy of this library is no error
  ffi::Function::SetGlobal("tvm_sparse.start_engine", ffi::Function::FromTyped(start_engine),
                           kOverride);
  ffi::Function::SetGlobal("tvm_sparse.together", ffi::Function::FromTyped(together), kOverride);
}

}  // namespace
}  // namespace tvm_sparse
