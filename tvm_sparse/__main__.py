"""``python -m tvm_sparse`` and its script: the command line."""

from __future__ import annotations


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it as later ones do."""
    try:
        from tvm_sparse.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
