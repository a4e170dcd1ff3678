// libcudnn.so.9 without a GPU: convolutions computed one by one on the CPU, after a look at all
// that a caller may do wrong. Names and numbers are those of the headers of cuDNN 9.28.1.
//
// FAKE_CUDNN makes it fail: "old" (its version), "start" (a handle), "find" (no algorithm), "room"
// (all want more workspace than anybody has) or "convolve" (every convolution fails).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../executor/api.h"
#include "cuda_abi.h"
#include "numbers.h"

namespace {

using library::Bytes, library::kFloat, library::kHalf, library::Load, library::Store;

enum Status {
  kDone = 0,
  kNotInitialized = 1001,
  kInvalid = 2000,
  kMisaligned = 2003,
  kTooSmall = 2006,
  kUnsupported = 3000,
  kFailed = 5000
};
constexpr int kBfloat = 9, kLast = 1, kCorrelation = 1;
constexpr int kTensorCores = 1, kMultiplyAdds = 3, kRelu = 1, kIdentity = 5, kPropagateNan = 1;
constexpr int kImplicit = 0, kPrecomputed = 1, kWinograd = 7;
constexpr size_t kAligned = 16, kUsed = 1 << 16;

bool Fails(const char* how) { return library::Fails("FAKE_CUDNN", how); }

struct Library {
  Handle stream = nullptr;
};

struct Tensor {  // or a filter, of n features
  int format = -1, type = -1, n = 0, c = 0, h = 0, w = 0;

  uint64_t Size() const { return uint64_t{1} * n * c * h * w; }
  uint64_t Size(int type) const { return Size() * Bytes(type); }
  uint64_t At(int i, int y, int x, int channel) const {
    return ((uint64_t{1} * i * h + y) * w + x) * c + channel;
  }
  bool Sound() const {
    const bool known = type == kFloat || type == kHalf || type == kBfloat;
    return known && format == kLast && n > 0 && c > 0 && h > 0 && w > 0;
  }
  bool Like(const Tensor& o) const {
    return type == o.type && n == o.n && c == o.c && h == o.h && w == o.w;
  }
};

struct Window {
  int top, left, down, across, dilation_down, dilation_across, mode = -1, sums = -1, math = 0;
};

struct Activation {
  int mode = -1, nan = 0;
};

struct Choice {
  int algorithm, state;
  float milliseconds;
  size_t workspace;
  int determinism, math, reserved[3];
};

int Extent(int input, int border, int taps, int dilation, int stride) {
  return (input + 2 * border - dilation * (taps - 1) - 1) / stride + 1;
}

// Whether the descriptors are set and fit, and sums and products are as exact as floats want it.
bool Fits(const Tensor& x, const Tensor& w, const Window& v, const Tensor& y) {
  const bool set = x.Sound() && w.Sound() && y.Sound() && v.mode == kCorrelation && v.down > 0 &&
                   v.across > 0 && v.top >= 0 && v.left >= 0 && v.dilation_down > 0 &&
                   v.dilation_across > 0;
  return set && x.type == w.type && x.type == y.type && v.sums == kFloat && x.c == w.c &&
         y.n == x.n && y.c == w.n && y.h == Extent(x.h, v.top, w.h, v.dilation_down, v.down) &&
         y.w == Extent(x.w, v.left, w.w, v.dilation_across, v.across) &&
         v.math == (x.type == kFloat ? kMultiplyAdds : kTensorCores);
}

// What a convolution needs once it runs: pointers and a copy of all that describes them.
struct Work {
  Tensor x, w, y;
  Window window;
  const void *input, *weights;
  void *out, *workspace;
  float alpha, beta;
  const void *added = nullptr, *bias = nullptr;  // the latter: of what also has an activation
  bool relu = false;

  bool Readable() const {
    return ts_ptx_holds(input, x.Size(x.type), 1) && ts_ptx_holds(weights, w.Size(w.type), 1) &&
           ts_ptx_holds(out, y.Size(y.type), 0) &&
           (beta == 0 || ts_ptx_holds(added, y.Size(y.type), 1)) &&
           (!bias || ts_ptx_holds(bias, y.c * Bytes(y.type), 1)) &&
           ts_ptx_holds(workspace, kUsed, 0);
  }

  double Sum(int i, int row, int column, int feature) const {
    double sum = 0;
    for (int r = 0; r < w.h; ++r) {
      const int h = row * window.down - window.top + r * window.dilation_down;
      for (int s = 0; h >= 0 && h < x.h && s < w.w; ++s) {
        const int v = column * window.across - window.left + s * window.dilation_across;
        if (v < 0 || v >= x.w) continue;
        const uint64_t from = x.At(i, h, v, 0), by = w.At(feature, r, s, 0);
        for (int c = 0; c < x.c; ++c) {
          sum += Load(input, x.type, from + c) * Load(weights, w.type, by + c);
        }
      }
    }
    return sum;
  }

  void Element(int i, int row, int column, int feature) const {
    const uint64_t at = y.At(i, row, column, feature);
    double value = alpha * Sum(i, row, column, feature);
    if (beta != 0) value += beta * Load(added, y.type, at);
    if (bias) value += Load(bias, y.type, feature);
    Store(out, y.type, at, relu && value < 0 ? 0 : value);
    ts_ptx_wrote(static_cast<char*>(out) + at * Bytes(y.type), Bytes(y.type));
  }

  int operator()() const {
    if (!Readable()) return kLaunchFailed;
    std::memset(workspace, 0xff, kUsed);  // a library leaves what it likes there
    for (int i = 0; i < y.n; ++i) {
      for (int row = 0; row < y.h; ++row) {
        for (int column = 0; column < y.w; ++column) {
          for (int feature = 0; feature < y.c; ++feature) Element(i, row, column, feature);
        }
      }
    }
    return kSuccess;
  }
};

int Run(const Library* library, const Work& work, int algorithm, size_t bytes, const char* after) {
  if (!library || !Fits(work.x, work.w, work.window, work.y)) return kInvalid;
  if (algorithm != kImplicit && algorithm != kPrecomputed) return kUnsupported;
  if (bytes < kUsed) return kTooSmall;
  for (const void* place : {work.input, work.weights, work.beta != 0 ? work.added : work.out,
                            static_cast<const void*>(work.out), work.bias ? work.bias : work.out}) {
    if (reinterpret_cast<uintptr_t>(place) % kAligned) return kMisaligned;
  }
  if (Fails("convolve")) return kFailed;
  char line[200];
  std::snprintf(line, sizeof line, "cudnn %d %d %d %d to %d %d %d taps %d %d type %d %s beta %g %s",
                work.x.n, work.x.h, work.x.w, work.x.c, work.y.c, work.y.h, work.y.w, work.w.h,
                work.w.w, work.x.type, after, work.beta, ts_capturing(library->stream));
  ts_note(line);
  ts_note_stream(library->stream, "convolution");
  return ts_do(library->stream, work) == kSuccess ? kDone : kFailed;
}

template <typename Made>
int New(Handle* made) {
  return *made = new Made, kDone;
}

template <typename Made>
int Delete(Handle made) {
  delete static_cast<Made*>(made);
  return kDone;
}

template <typename Made>
const Made& As(Handle made) {
  return *static_cast<const Made*>(made);
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return Fails("old") ? 8907 : 92801; }

const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kDone: return "CUDNN_STATUS_SUCCESS";
    case kNotInitialized: return "CUDNN_STATUS_NOT_INITIALIZED";
    case kInvalid: return "CUDNN_STATUS_BAD_PARAM";
    case kMisaligned: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case kTooSmall: return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case kUnsupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}

int cudnnCreate(Handle* handle) { return Fails("start") ? kNotInitialized : New<Library>(handle); }

int cudnnSetStream(Handle library, Handle stream) {
  static_cast<Library*>(library)->stream = stream;
  return kDone;
}

int cudnnCreateTensorDescriptor(Handle* made) { return New<Tensor>(made); }
int cudnnDestroyTensorDescriptor(Handle made) { return Delete<Tensor>(made); }
int cudnnCreateFilterDescriptor(Handle* made) { return New<Tensor>(made); }
int cudnnDestroyFilterDescriptor(Handle made) { return Delete<Tensor>(made); }
int cudnnCreateConvolutionDescriptor(Handle* made) { return New<Window>(made); }
int cudnnDestroyConvolutionDescriptor(Handle made) { return Delete<Window>(made); }
int cudnnCreateActivationDescriptor(Handle* made) { return New<Activation>(made); }
int cudnnDestroyActivationDescriptor(Handle made) { return Delete<Activation>(made); }

int cudnnSetTensor4dDescriptor(Handle tensor, int format, int type, int n, int c, int h, int w) {
  *static_cast<Tensor*>(tensor) = {format, type, n, c, h, w};
  return As<Tensor>(tensor).Sound() ? kDone : kInvalid;
}

int cudnnSetFilter4dDescriptor(Handle filter, int type, int format, int k, int c, int h, int w) {
  return cudnnSetTensor4dDescriptor(filter, format, type, k, c, h, w);
}

int cudnnSetConvolution2dDescriptor(Handle window, int top, int left, int down, int across,
                                    int dilation_down, int dilation_across, int mode, int sums) {
  *static_cast<Window*>(window) = {top,  left, down, across, dilation_down, dilation_across,
                                   mode, sums};
  return kDone;
}

int cudnnSetConvolutionMathType(Handle window, int math) {
  static_cast<Window*>(window)->math = math;
  return kDone;
}

int cudnnSetActivationDescriptor(Handle activation, int mode, int nan, double) {
  *static_cast<Activation*>(activation) = {mode, nan};
  return kDone;
}

// The fastest is one that a caller must not take: it rounds in between.
int cudnnGetConvolutionForwardAlgorithm_v7(Handle library, Handle x, Handle w, Handle window,
                                           Handle y, int most, int* count, Choice* found) {
  *count = 0;
  if (!library || most < 1 ||
      !Fits(As<Tensor>(x), As<Tensor>(w), As<Window>(window), As<Tensor>(y)))
    return kInvalid;
  const int math = As<Window>(window).math;
  for (const int algorithm : {kWinograd, kImplicit, kPrecomputed}) {
    const int state = Fails("find") ? kUnsupported : kDone;
    if (*count < most) found[(*count)++] = {algorithm, state, 1.0F, kUsed, 1, math, {}};
  }
  return kDone;
}

int cudnnGetConvolutionForwardWorkspaceSize(Handle library, Handle x, Handle w, Handle window,
                                            Handle y, int, size_t* bytes) {
  if (!library || !Fits(As<Tensor>(x), As<Tensor>(w), As<Window>(window), As<Tensor>(y)))
    return kInvalid;
  *bytes = Fails("room") ? size_t{1} << 40 : kUsed;
  return kDone;
}

int cudnnConvolutionForward(Handle library, const void* alpha, Handle of_x, const void* x,
                            Handle of_w, const void* w, Handle window, int algorithm,
                            void* workspace, size_t bytes, const void* beta, Handle of_y, void* y) {
  const Work work{As<Tensor>(of_x),
                  As<Tensor>(of_w),
                  As<Tensor>(of_y),
                  As<Window>(window),
                  x,
                  w,
                  y,
                  workspace,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  y};
  return Run(static_cast<Library*>(library), work, algorithm, bytes, "alone");
}

int cudnnConvolutionBiasActivationForward(Handle library, const void* alpha, Handle of_x,
                                          const void* x, Handle of_w, const void* w, Handle window,
                                          int algorithm, void* workspace, size_t bytes,
                                          const void* beta, Handle of_z, const void* z,
                                          Handle of_bias, const void* bias, Handle activation,
                                          Handle of_y, void* y) {
  const auto& after = As<Activation>(activation);
  const Tensor &out = As<Tensor>(of_y), &vector = As<Tensor>(of_bias);
  const bool relu = after.mode == kRelu && after.nan == kPropagateNan;
  const bool identity = after.mode == kIdentity && algorithm == kPrecomputed;
  const bool fits = As<Tensor>(of_z).Like(out) && vector.Like({kLast, out.type, 1, out.c, 1, 1});
  if (!bias || !z || x == y || !fits || !(relu || identity)) return kInvalid;
  const Work work{As<Tensor>(of_x),
                  As<Tensor>(of_w),
                  out,
                  As<Window>(window),
                  x,
                  w,
                  y,
                  workspace,
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  z,
                  bias,
                  relu};
  return Run(static_cast<Library*>(library), work, algorithm, bytes, relu ? "bias relu" : "bias");
}
}
