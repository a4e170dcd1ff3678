#!/bin/sh
# Usage: wheels.sh [DIRECTORY]: build the release files of both distributions, DIRECTORY is dist.
#
# Source distributions and, in containers of manylinux_2_28 (cibuildwheel, needs Docker), wheels for
# this machine's architecture; CIBW_ARCHS_LINUX names another one, which Docker then emulates.
set -eu
cd "$(dirname "$0")/.."
output=${1:-dist}
python=${PYTHON:-python3}
version=$("$python" -c "exec(open('python/tvm_sparse_runtime/version.py').read()); print(__version__)")
"$python" tools/release_notes.py "$version" >/dev/null

for project in python .; do
    "$python" -m build --sdist --outdir "$output" "$project"
done
# The compiler's wheel is built against nothing of the runtime: their order does not matter.
for project in python .; do
    "$python" -m cibuildwheel --platform linux --output-dir "$output" "$project"
done
ls -l "$output"
