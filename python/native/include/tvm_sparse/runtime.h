/*!
 * \file tvm_sparse/runtime.h
 * \brief Open and run artifacts of tvm-sparse from C.
 *
 * Every function is safe to call from any thread, but one library runs one call at a time: threads
 * that run side by side have a clone each. No function throws; each that can fail returns a status,
 * and tvm_sparse_last_error() says more. Nothing here depends on the version of TVM.
 *
 * Opening an artifact runs its code. The checksums find damage, not malice: open only artifacts
 * whose origin you trust.
 */
#ifndef TVM_SPARSE_RUNTIME_H_
#define TVM_SPARSE_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TVM_SPARSE_API __attribute__((visibility("default")))

/*! \brief Version of this interface: programs built against one run with a library of the same. */
#define TVM_SPARSE_ABI_VERSION 2

typedef enum {
  TVM_SPARSE_OK = 0,
  /*! \brief The artifact is damaged, foreign, or made for another machine or version. */
  TVM_SPARSE_BAD_ARTIFACT = 1,
  /*! \brief An input does not fit its description. */
  TVM_SPARSE_BAD_TENSOR = 2,
  /*! \brief The program failed, for instance for want of memory. */
  TVM_SPARSE_FAILED = 3,
  /*! \brief An argument that no call may have, such as a null pointer. */
  TVM_SPARSE_BAD_ARGUMENT = 4
} tvm_sparse_status;

/*! \brief An opened artifact. */
typedef struct tvm_sparse_library tvm_sparse_library;
/*! \brief What one call gave. */
typedef struct tvm_sparse_outputs tvm_sparse_outputs;
/*! \brief A call whose inputs and outputs stay where they are. */
typedef struct tvm_sparse_bound tvm_sparse_bound;

/*! \brief How to open; tvm_sparse_default_options() fills it in. */
typedef struct {
  /*! \brief sizeof(tvm_sparse_options) of the caller. */
  size_t size;
  /*! \brief Compare the SHA-256 of the weights; everything else is always checked. */
  int verify;
  /*! \brief Read the library into memory before it is checked, so that no change of the file
   * reaches it. */
  int copy;
  /*! \brief Threads to run with; 0: TVM_NUM_THREADS, else what the artifact asks for, else all
   * physical cores of this process. */
  int threads;
} tvm_sparse_options;

/*! \brief What an input must be, or an output will be. It lives as long as its library. */
typedef struct {
  const char* name;
  /*! \brief "float32", "int64" and so on, as NumPy spells them, and "bfloat16". */
  const char* dtype;
  int32_t ndim;
  /*! \brief The extent of each axis; -1 where it is free. */
  const int64_t* shape;
  /*! \brief The name of each free extent, null where it is fixed. One name is one length. */
  const char* const* symbols;
} tvm_sparse_spec;

/*! \brief Where a tensor lies. */
typedef enum {
  TVM_SPARSE_HOST = 0,
  /*! \brief The first NVIDIA GPU of the process. */
  TVM_SPARSE_CUDA = 1
} tvm_sparse_device;

/*! \brief A contiguous tensor, the last axis innermost. */
typedef struct {
  const char* dtype;
  int32_t ndim;
  const int64_t* shape;
  /*! \brief Used where it lies if it begins on a multiple of 64 bytes (some inputs: of the
   *  size of an element), else copied. Never written.
   */
  const void* data;
  /*! \brief A tvm_sparse_device: where data lies. Programs for CPUs take host memory. */
  int32_t device;
} tvm_sparse_tensor;

/*! \brief Return the TVM_SPARSE_ABI_VERSION that the library was built with. */
TVM_SPARSE_API int tvm_sparse_abi_version(void);

/*! \brief Return the release of the library, for example "0.1.0". */
TVM_SPARSE_API const char* tvm_sparse_version(void);

/*! \brief Return what was wrong in this thread's last call that failed; never null. */
TVM_SPARSE_API const char* tvm_sparse_last_error(void);

TVM_SPARSE_API tvm_sparse_options tvm_sparse_default_options(void);

/*!
 * \brief Check the artifact in a directory and open it.
 * \param directory What library.export() wrote.
 * \param options Null for the default.
 * \param library Where to put the library; null is put there if this fails.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_open(const char* directory,
                                                 const tvm_sparse_options* options,
                                                 tvm_sparse_library** library);

/*! \brief Make a second session of the same program: it shares code and weights, and nothing else.
 * Its calls are shared by as many threads.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_clone(const tvm_sparse_library* library,
                                                  tvm_sparse_library** clone);

/*! \brief The same, whose calls are shared by so many threads; 0 as in tvm_sparse_options. */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_clone_with_threads(const tvm_sparse_library* library,
                                                               int threads,
                                                               tvm_sparse_library** clone);

/*! \brief Let go of a library; null is let through. Outputs stay valid. Code stays mapped. */
TVM_SPARSE_API void tvm_sparse_close(tvm_sparse_library* library);

TVM_SPARSE_API size_t tvm_sparse_num_inputs(const tvm_sparse_library* library);
TVM_SPARSE_API size_t tvm_sparse_num_outputs(const tvm_sparse_library* library);
/*! \brief Return the description of an input, null if there are not as many. */
TVM_SPARSE_API const tvm_sparse_spec* tvm_sparse_input(const tvm_sparse_library* library,
                                                       size_t index);
/*! \brief Return the description of an output, null if there are not as many. */
TVM_SPARSE_API const tvm_sparse_spec* tvm_sparse_output(const tvm_sparse_library* library,
                                                        size_t index);

/*!
 * \brief Run the program once.
 * \param inputs As many tensors as the library has inputs, in their order.
 * \param count How many they are.
 * \param outputs Where to put what it gave; null is put there if this fails.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_run(tvm_sparse_library* library,
                                                const tvm_sparse_tensor* inputs, size_t count,
                                                tvm_sparse_outputs** outputs);

/*!
 * \brief Run the program once, on a stream.
 *
 * A program for a GPU puts its work there and returns: outputs are there when the stream has done
 * it. They lie where the first input does; on the host they are complete. Calls of a process follow
 * each other on the GPU, whatever their streams; a program runs on the GPU from C or from Python,
 * not from both in one process. tvm_sparse_run() is the same on the default stream.
 * \param stream A cudaStream_t; null for the default one, and for programs for CPUs.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_run_on(tvm_sparse_library* library, void* stream,
                                                   const tvm_sparse_tensor* inputs, size_t count,
                                                   tvm_sparse_outputs** outputs);

/*!
 * \brief Bind a program for a GPU to inputs that stay where they are.
 *
 * The whole call becomes one CUDA graph, which reads these addresses whenever it is replayed: fill
 * the memory anew before. Whoever frees it must not replay any more. A few programs cannot be
 * bound; the error says why.
 * \param inputs Tensors on the GPU that need not be copied.
 * \param bound Where to put the call; null is put there if this fails.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_bind(tvm_sparse_library* library, void* stream,
                                                 const tvm_sparse_tensor* inputs, size_t count,
                                                 tvm_sparse_bound** bound);
/*! \brief Put a bound call on a stream, and return. Its outputs are overwritten. */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_replay(const tvm_sparse_bound* bound, void* stream);
/*! \brief Return the outputs of every replay, on the GPU, which live as long as \p bound. */
TVM_SPARSE_API const tvm_sparse_outputs* tvm_sparse_bound_outputs(const tvm_sparse_bound* bound);
/*! \brief Let go of a bound call; null is let through. */
TVM_SPARSE_API void tvm_sparse_bound_free(tvm_sparse_bound* bound);

/*!
 * \brief Run the program some times, after once that warms up, and write when each kernel ran.
 *
 * The file is JSON of the Trace Event Format, for ui.perfetto.dev and chrome://tracing. Timing a
 * step takes about a microsecond, so traced calls are longer than others. Programs for CPUs only.
 * \param calls How many calls are traced, 1 or more.
 * \param path The file to write.
 */
TVM_SPARSE_API tvm_sparse_status tvm_sparse_trace(const tvm_sparse_library* library,
                                                  const tvm_sparse_tensor* inputs, size_t count,
                                                  int calls, const char* path);

TVM_SPARSE_API size_t tvm_sparse_outputs_count(const tvm_sparse_outputs* outputs);
/*! \brief Return an output, null if there are not as many. It lives as long as \p outputs. */
TVM_SPARSE_API const tvm_sparse_tensor* tvm_sparse_outputs_get(const tvm_sparse_outputs* outputs,
                                                               size_t index);
/*! \brief Let go of outputs; null is let through. */
TVM_SPARSE_API void tvm_sparse_outputs_free(tvm_sparse_outputs* outputs);

#ifdef __cplusplus
}
#endif

#endif /* TVM_SPARSE_RUNTIME_H_ */
