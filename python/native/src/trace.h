// When each kernel of a call ran, as Perfetto and Chrome's tracing read it.
#pragma once

#include <memory>
#include <string>

#include "session.h"

namespace tvm_sparse {

// Run a program `calls` times, after once that warms up, and write what ran to `path`: complete
// events of the Trace Event Format. Only programs for CPUs.
void write_trace(const std::shared_ptr<const Program>& program, int threads,
                 const tvm_sparse_tensor* inputs, size_t count, int calls, const std::string& path);

}  // namespace tvm_sparse
