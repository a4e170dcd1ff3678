#include "cusparselt.h"

namespace tvm_sparse {
namespace cusparselt {

const Sought kSought = {
    "cuSPARSELt",
    {"libcusparseLt.so.0"},
    {"nvidia/cu13/lib/", "nvidia/cusparselt/lib/"},
    "TVM_SPARSE_CUSPARSELT",
    "nvidia-cusparselt-cu13",
    701,
    "0.7.1 or newer",
};

void Call::bind(Binder binder) {
  binder("cusparseLtGetProperty", &property);
  binder("cusparseLtGetErrorName", &status_name);
  binder("cusparseLtInit", &init);
  binder("cusparseLtStructuredDescriptorInit", &structured);
  binder("cusparseLtDenseDescriptorInit", &dense);
  binder("cusparseLtMatDescriptorDestroy", &forget_matrix);
  binder("cusparseLtMatmulDescriptorInit", &product);
  binder("cusparseLtMatmulDescSetAttribute", &set_product);
  binder("cusparseLtMatmulAlgSelectionInit", &select);
  binder("cusparseLtMatmulPlanInit", &plan);
  binder("cusparseLtMatmulPlanDestroy", &forget_plan);
  binder("cusparseLtMatmulGetWorkspace", &room);
  binder("cusparseLtSpMMACompressedSize2", &sizes);
  binder("cusparseLtSpMMACompress2", &compress);
  binder("cusparseLtMatmul", &multiply);
}

// Its own function wants a library that has been started, which may be too old for that.
size_t Call::number() const {
  int major = 0, minor = 0, patch = 0;
  property(0, &major);
  property(1, &minor);
  property(2, &patch);
  return static_cast<size_t>(major) * 1000000 + static_cast<size_t>(minor) * 100 +
         static_cast<size_t>(patch);
}

Status Call::begin(Handle* handle) const {
  static Opaque started;  // a process has one library
  *handle = &started;
  return init(*handle);
}

}  // namespace cusparselt
}  // namespace tvm_sparse
