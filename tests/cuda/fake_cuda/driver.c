// libcuda.so.1 without a GPU: modules are looked at, launches are written down, nothing runs.
#include <cuda.h>
#include <string.h>

#include "record.h"

typedef struct {
  char name[256];
} Kernel;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  unsigned magic, flags;
  memcpy(&magic, image, 4);
  memcpy(&flags, (const char *)image + 48, 4);
  if (magic == 0x464c457fu)
    RECORD("load cubin %u\n", flags);
  else if (magic == 0xba55ed50u)
    RECORD("load fatbin\n");
  else
    return CUDA_ERROR_INVALID_IMAGE;  // source or PTX: would need a compiler at run time
  *module = (CUmodule)malloc(1);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  free(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  (void)module;
  Kernel *kernel = malloc(sizeof *kernel);
  snprintf(kernel->name, sizeof kernel->name, "%s", name);
  *function = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  RECORD("attribute %s %d %d\n", ((Kernel *)function)->name, attribute, value);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **arguments,
                          void **extra) {
  (void)arguments, (void)extra;
  RECORD("launch %s %u %u %u %u %u %u %u\n", ((Kernel *)function)->name, c->gridDimX, c->gridDimY,
         c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  (void)error;
  *text = "FAKE";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  (void)device;
  snprintf(name, size, "fake");
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *extents, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)map, (void)type, (void)rank, (void)address, (void)extents, (void)strides, (void)box;
  (void)steps, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  return CUDA_ERROR_NOT_SUPPORTED;
}
