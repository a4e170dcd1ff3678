#include "cublaslt.h"

namespace tvm_sparse {
namespace cublaslt {

const Sought kSought = {
    "cuBLASLt",
    {"libcublasLt.so.13", "libcublasLt.so.12"},
    {"nvidia/cu13/lib/", "nvidia/cublas/lib/"},
    "TVM_SPARSE_CUBLASLT",
    "nvidia-cublas",
    120000,
    "12 or 13",
};

void Call::bind(Binder binder) {
  binder("cublasLtGetVersion", &version);
  binder("cublasLtGetStatusName", &status_name);
  binder("cublasLtCreate", &create);
  binder("cublasLtMatmulDescCreate", &product);
  binder("cublasLtMatmulDescSetAttribute", &set_product);
  binder("cublasLtMatmulDescDestroy", &forget_product);
  binder("cublasLtMatrixLayoutCreate", &matrix);
  binder("cublasLtMatrixLayoutDestroy", &forget_matrix);
  binder("cublasLtMatmulPreferenceCreate", &preference);
  binder("cublasLtMatmulPreferenceSetAttribute", &set_preference);
  binder("cublasLtMatmulPreferenceDestroy", &forget_preference);
  binder("cublasLtMatmulAlgoGetHeuristic", &find);
  binder("cublasLtMatmul", &multiply);
}

}  // namespace cublaslt
}  // namespace tvm_sparse
