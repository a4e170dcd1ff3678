// What Python and the stand-in for the driver call. Functions return 0, or 1 with `error` filled
// in.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

void* ts_ptx_load(const char* text, char* error, size_t size);
void ts_ptx_unload(void* module);
// The kernel of that name, or null.
const void* ts_ptx_kernel(const void* module, const char* name);
// The bytes of parameter `index`, 0 beyond the last.
uint32_t ts_ptx_parameter(const void* kernel, int index);
int ts_ptx_launch(const void* module, const void* kernel, const uint32_t* grid,
                  const uint32_t* block, uint64_t shared, const void* const* arguments, char* error,
                  size_t size);

// Memory that kernels may access; what the host writes must be told.
void* ts_ptx_allocate(uint64_t bytes);
void ts_ptx_free(void* memory);
void ts_ptx_wrote(const void* memory, uint64_t bytes);
// Whether bytes lie in one piece of such memory; if `written`, whether all of them were written.
int ts_ptx_holds(const void* memory, uint64_t bytes, int written);

// Describe a tensor that bulk copies read in boxes: sizes and box in elements of `bytes`, the
// innermost first, strides in bytes from the second on; `swizzle` 0 to 3 as the driver counts them.
// Writes 128 bytes, which kernels take as a parameter.
int ts_ptx_tensor_map(void* map, const void* base, int rank, int bytes, const uint64_t* sizes,
                      const uint64_t* strides, const uint32_t* box, int swizzle, char* error,
                      size_t size);

// Look for errors or not; execute at most so many blocks of a grid (0: all), spread over it.
void ts_ptx_options(int sanitize, uint64_t most_blocks);
// JSON: {"launches": [...], "findings": [...]}, valid until the next call.
const char* ts_ptx_report();
void ts_ptx_forget();
}
