#include "cudnn.h"

namespace tvm_sparse {
namespace cudnn {

const Sought kSought = {
    "cuDNN",
    {"libcudnn.so.9"},
    {"nvidia/cudnn/lib/"},
    "TVM_SPARSE_CUDNN",
    "nvidia-cudnn-cu13",
    90000,
    "9",
};

void Call::bind(Binder binder) {
  binder("cudnnGetVersion", &version);
  binder("cudnnGetErrorString", &status_name);
  binder("cudnnCreate", &create);
  binder("cudnnSetStream", &set_stream);
  binder("cudnnCreateTensorDescriptor", &tensor);
  binder("cudnnSetTensor4dDescriptor", &set_tensor);
  binder("cudnnDestroyTensorDescriptor", &forget_tensor);
  binder("cudnnCreateFilterDescriptor", &filter);
  binder("cudnnSetFilter4dDescriptor", &set_filter);
  binder("cudnnDestroyFilterDescriptor", &forget_filter);
  binder("cudnnCreateConvolutionDescriptor", &window);
  binder("cudnnSetConvolution2dDescriptor", &set_window);
  binder("cudnnSetConvolutionMathType", &set_math);
  binder("cudnnDestroyConvolutionDescriptor", &forget_window);
  binder("cudnnCreateActivationDescriptor", &activation);
  binder("cudnnSetActivationDescriptor", &set_activation);
  binder("cudnnDestroyActivationDescriptor", &forget_activation);
  binder("cudnnGetConvolutionForwardAlgorithm_v7", &find);
  binder("cudnnGetConvolutionForwardWorkspaceSize", &room);
  binder("cudnnConvolutionForward", &convolve);
  binder("cudnnConvolutionBiasActivationForward", &convolve_more);
}

}  // namespace cudnn
}  // namespace tvm_sparse
