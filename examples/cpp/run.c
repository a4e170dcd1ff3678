/* Run an artifact from C: run_from_c ARTIFACT. Every input is filled with 0, 1, 2 and so on; the
 * first output goes to stdout as it is. A free extent is 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_sparse/runtime.h"

enum { FREE_EXTENT = 2, MOST_AXES = 8 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tvm_sparse_last_error());
  return 1;
}

int main(int argc, char** argv) {
  tvm_sparse_library* library;
  tvm_sparse_outputs* outputs;
  if (argc != 2) return fputs("usage: run_from_c ARTIFACT\n", stderr), 2;
  if (tvm_sparse_open(argv[1], NULL, &library) != TVM_SPARSE_OK) return fail("open");

  const tvm_sparse_spec* spec = tvm_sparse_input(library, 0);
  int64_t shape[MOST_AXES];
  size_t count = 1;
  if (tvm_sparse_num_inputs(library) != 1 || strcmp(spec->dtype, "float32") != 0 ||
      spec->ndim > MOST_AXES) {
    return fputs("this example takes one input of float32\n", stderr), 1;
  }
  for (int32_t axis = 0; axis < spec->ndim; ++axis) {
    shape[axis] = spec->shape[axis] < 0 ? FREE_EXTENT : spec->shape[axis];
    if (__builtin_mul_overflow(count, (size_t)shape[axis], &count))
      return fputs("too large\n", stderr), 1;
  }
  float* values = calloc(count, sizeof *values);
  if (!values) return 1;
  for (size_t i = 0; i < count; ++i) values[i] = (float)i;

  tvm_sparse_tensor input = {spec->dtype, spec->ndim, shape, values};
  if (tvm_sparse_run(library, &input, 1, &outputs) != TVM_SPARSE_OK) return fail("run");

  const tvm_sparse_tensor* first = tvm_sparse_outputs_get(outputs, 0);
  if (!first) return fputs("the program gives nothing\n", stderr), 1;
  size_t elements = 1;
  for (int32_t axis = 0; axis < first->ndim; ++axis) elements *= (size_t)first->shape[axis];
  fwrite(first->data, sizeof(float), elements, stdout);

  tvm_sparse_outputs_free(outputs);
  tvm_sparse_close(library);
  free(values);
  return 0;
}
