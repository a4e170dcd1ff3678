// libcudart.so.13 without a GPU: device memory is host memory, streams and events do nothing.
#include <cuda_runtime_api.h>
#include <string.h>

#include "record.h"

enum { CAPABILITY_MAJOR = 9, CAPABILITY_MINOR = 0, PROCESSORS = 132 };

#define NOTHING(name, ...) \
  cudaError_t name(__VA_ARGS__) { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}

NOTHING(cudaSetDevice, int device)

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  (void)device;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = CAPABILITY_MAJOR; break;
    case cudaDevAttrComputeCapabilityMinor: *value = CAPABILITY_MINOR; break;
    case cudaDevAttrMultiProcessorCount: *value = PROCESSORS; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    default: *value = 1024;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  (void)device;
  memset(properties, 0, sizeof *properties);
  strcpy(properties->name, "fake");
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
  *unused = *total = (size_t)8 << 30;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t size) {
  RECORD("malloc %zu\n", size);
  *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory) {
  free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t size) {
  *memory = malloc(size);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory) { return cudaFree(memory); }

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)stream;
  RECORD("copy %zu %d\n", size, kind);
  memcpy(to, from, size);
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size, cudaStream_t stream) {
  (void)to_device, (void)from_device;
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}

#define HANDLE(name, type, ...)        \
  cudaError_t name(__VA_ARGS__) {      \
    *handle = (type)malloc(1);         \
    return cudaSuccess;                \
  }

HANDLE(cudaEventCreate, cudaEvent_t, cudaEvent_t *handle)
HANDLE(cudaStreamCreate, cudaStream_t, cudaStream_t *handle)
HANDLE(cudaStreamCreateWithFlags, cudaStream_t, cudaStream_t *handle, unsigned flags)
HANDLE(cudaGraphInstantiate, cudaGraphExec_t, cudaGraphExec_t *handle, cudaGraph_t graph,
       unsigned long long flags)
NOTHING(cudaMemsetAsync, void *memory, int value, size_t size, cudaStream_t stream)
NOTHING(cudaEventDestroy, cudaEvent_t event)
NOTHING(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
NOTHING(cudaEventSynchronize, cudaEvent_t event)
NOTHING(cudaStreamDestroy, cudaStream_t stream)
NOTHING(cudaStreamSynchronize, cudaStream_t stream)
NOTHING(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event, unsigned flags)
NOTHING(cudaGraphDestroy, cudaGraph_t graph)
NOTHING(cudaGraphExecDestroy, cudaGraphExec_t graph)
NOTHING(cudaGetLastError, void)
NOTHING(cudaPeekAtLastError, void)

cudaError_t cudaEventElapsedTime(float *time, cudaEvent_t begin, cudaEvent_t end) {
  (void)begin, (void)end;
  *time = 1;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  (void)stream, (void)mode;
  RECORD("capture begin\n");
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  (void)stream;
  RECORD("capture end\n");
  *graph = (cudaGraph_t)malloc(1);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  (void)graph, (void)stream;
  RECORD("launch graph\n");
  return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error) { return error ? "FAKE" : "cudaSuccess"; }
const char *cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
