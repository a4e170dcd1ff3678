#!/bin/sh
# Usage: make_venv.sh PYTHON DIRECTORY: make a virtual environment, or say what is missing.
set -eu
python=$1
venv=$2

fail() {
    echo "error: $1" >&2
    exit 1
}

command -v "$python" >/dev/null ||
    fail "no '$python' found; install Python 3.10 or newer, or run make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$python" --version) is too old; run make PYTHON=/path/to/python3.10-or-newer"
command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
    fail "no C++ compiler found; install g++ or clang++, or set CXX"

# Debian's python3 comes without ensurepip; virtualenv from the index does the same job.
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m pip install --quiet --target build/virtualenv virtualenv
    PYTHONPATH=build/virtualenv "$python" -m virtualenv --quiet "$venv"
else
    fail "'$python' has neither ensurepip nor pip; install python3-venv"
fi
