#include "apart.h"

#include <tvm/ffi/c_api.h>

#include <utility>

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

int call(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  return TVMFFIFunctionGetCellPtr(self)->safe_call(self, arguments, count, result);
}

void release(void* self) { TVMFFIObjectDecRef(self); }

}  // namespace

ffi::Function apart(ffi::Function function) {
  void* self = ffi::details::ObjectUnsafe::MoveObjectRefToTVMFFIObjectPtr(std::move(function));
  return ffi::Function::FromExternC(self, call, release);
}

void publish(const char* name, ffi::Function function) {
  constexpr bool kOverride = true;  // a second copy of this library is no error
  ffi::Function::SetGlobal(name, apart(std::move(function)), kOverride);
}

}  // namespace tvm_sparse
