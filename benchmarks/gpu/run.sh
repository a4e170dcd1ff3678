#!/usr/bin/env bash
# Runs the GPU benchmark.
#
#   benchmarks/gpu/run.sh --queue --build           build all kernels and pack build/bundle: needs no GPU
#   benchmarks/gpu/run.sh --queue --minutes 25      what a GPU must decide, in order of importance
#   benchmarks/gpu/run.sh --queue --stand-in        the queue on this CPU, to see whether it runs
#
#   benchmarks/gpu/run.sh                       all layers, results in benchmarks/results/gpu_*.json
#   benchmarks/gpu/run.sh --parts limits grid   some parts
#   benchmarks/gpu/run.sh --build               compile every kernel and stop: needs no GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export TVM_FFI_DISABLE_TORCH_C_DLPACK=1 TVM_BIND_THREADS=0 PYTHONUNBUFFERED=1
module=benchmarks.gpu
if [[ ${1:-} == --queue ]]; then
  module=benchmarks.gpu.queue
  shift
fi
exec "${PYTHON:-python3}" -m "$module" "$@"
