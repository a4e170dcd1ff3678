// cuDNN, looked up when a program first needs it and never linked.
//
// Names, numbers and layouts are those of cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h of cuDNN
// 9.28.1 (the wheel nvidia-cudnn-cu13), so that none is needed to build this. Its convolutions with
// descriptors are deprecated since 9.0, and there.
#pragma once

#include <cstddef>

#include "libraries.h"

namespace tvm_sparse {
namespace cudnn {

constexpr int kFloat = 0, kHalf = 2, kBfloat = 9;                // cudnnDataType_t
constexpr int kChannelsLast = 1;                                 // CUDNN_TENSOR_NHWC
constexpr int kCorrelation = 1;                                  // what networks call a convolution
constexpr int kTensorCores = 1, kMultiplyAdds = 3;               // cudnnMathType_t
constexpr int kRelu = 1, kIdentity = 5, kPropagateNan = 1;       // of an activation
constexpr int kImplicit = 0, kPrecomputed = 1, kAlgorithms = 8;  // cudnnConvolutionFwdAlgo_t
constexpr Status kNotSupported = 3000, kMisaligned = 2003;

struct Choice {  // cudnnConvolutionFwdAlgoPerf_t
  int algorithm;
  Status state;
  float milliseconds;
  size_t workspace;
  int determinism;
  int math;
  int reserved[3];
};

struct Call : Functions {
  Status (*set_stream)(Handle, void* stream);
  Status (*tensor)(Handle*);
  Status (*set_tensor)(Handle, int format, int type, int n, int c, int h, int w);
  Status (*forget_tensor)(Handle);
  Status (*filter)(Handle*);
  Status (*set_filter)(Handle, int type, int format, int k, int c, int h, int w);
  Status (*forget_filter)(Handle);
  Status (*window)(Handle*);
  Status (*set_window)(Handle, int top, int left, int down, int across, int dilation_down,
                       int dilation_across, int mode, int sums);
  Status (*set_math)(Handle, int math);
  Status (*forget_window)(Handle);
  Status (*activation)(Handle*);
  Status (*set_activation)(Handle, int mode, int nan, double limit);
  Status (*forget_activation)(Handle);
  Status (*find)(Handle library, Handle x, Handle w, Handle window, Handle y, int most, int* count,
                 Choice* found);
  Status (*room)(Handle library, Handle x, Handle w, Handle window, Handle y, int algorithm,
                 size_t* bytes);
  Status (*convolve)(Handle library, const void* alpha, Handle of_x, const void* x, Handle of_w,
                     const void* w, Handle window, int algorithm, void* workspace, size_t bytes,
                     const void* beta, Handle of_y, void* y);
  Status (*convolve_more)(Handle library, const void* alpha, Handle of_x, const void* x,
                          Handle of_w, const void* w, Handle window, int algorithm, void* workspace,
                          size_t bytes, const void* beta, Handle of_z, const void* z,
                          Handle of_bias, const void* bias, Handle activation, Handle of_y,
                          void* y);

  void bind(Binder binder);
};

// What is looked for: versions are ten thousand times the major one.
extern const Sought kSought;

}  // namespace cudnn
}  // namespace tvm_sparse
