#!/usr/bin/env bash
# Runs the GPU benchmark: all parts in under ten minutes, those that are done are left out.
#
#   benchmarks/gpu/run.sh                       everything, results in benchmarks/results/gpu_*.json
#   benchmarks/gpu/run.sh --parts limits grid   some parts
#   benchmarks/gpu/run.sh --build               compile every kernel and stop: needs no GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export TVM_FFI_DISABLE_TORCH_C_DLPACK=1 TVM_BIND_THREADS=0 PYTHONUNBUFFERED=1
exec "${PYTHON:-python3}" -m benchmarks.gpu "$@"
