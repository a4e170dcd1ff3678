"""``python -m tvm_sparse``: the command line, where its script is not on the path."""

from __future__ import annotations

from tvm_sparse.cli import main

if __name__ == "__main__":
    main()
