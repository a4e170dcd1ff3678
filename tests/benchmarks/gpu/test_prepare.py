import numpy as np
import pytest

from benchmarks.gpu import prepare
from benchmarks.gpu.cases import Case, depthwise, grid, papers, small
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction

TARGET = "cuda:sm_90"
LINEAR = Contraction((2,), 256, 64, numerics=Numerics.uniform("float16"))


@pytest.fixture(autouse=True)
def built(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path)


@needs_nvrtc
def test_a_kernel_is_machine_code_and_packed_weights():
    kernel = prepare.Kernel(Case("small", LINEAR, "balanced", 0.75), "balanced")
    place = kernel.place(TARGET)
    prepare.build(kernel, TARGET, kernel.place(TARGET))
    arrays, record = prepare.packed(place)
    assert record["weight_bytes"] == sum(a.nbytes for a in arrays)
    assert np.count_nonzero(arrays[0]) == np.count_nonzero(kernel.case.weight())
    library = (place / "code" / "kernel.so").read_bytes()
    assert b"__global__" not in library
    assert record["kernel"] == "stream"


def test_joint_layers_without_empty_tiles_take_what_the_compiler_would():
    (case, *_) = (c for c in small() if c.pattern.startswith("joint"))
    kernel = prepare.Kernel(case, case.format)
    option = kernel.option(parse_target(TARGET).target)
    assert option.name in ("balanced", "block")
    assert kernel.arrays(option.format)


@needs_nvrtc
def test_what_is_built_is_not_built_again(monkeypatch):
    """Code first, as it is carried to a GPU machine; weights are packed there."""
    (kernel,) = prepare.kernels([Case("small", LINEAR, "none", 0.0)])
    prepare.build(kernel, TARGET, kernel.place(TARGET), pack=False)
    library = kernel.place(TARGET) / "code" / "kernel.so"
    written = library.stat().st_mtime_ns
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "ProcessPoolExecutor", None)
        assert list(prepare.build_all([kernel], TARGET, 0, pack=False)) == [(kernel, "")]
    prepare.build(kernel, TARGET, kernel.place(TARGET))
    assert library.stat().st_mtime_ns == written
    monkeypatch.setattr(prepare, "ProcessPoolExecutor", None)
    assert list(prepare.build_all([kernel], TARGET, 0, pack=True)) == [(kernel, "")]
    names = {path.name for path in prepare.code_files()}
    assert names == {"kernel.so", "kernel.json", "format"}
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "code_version", lambda *folders: "of other code")
        assert prepare.code_files() == []


def test_other_code_has_another_place(monkeypatch):
    kernel = prepare.Kernel(Case("small", LINEAR, "none", 0.0), "dense")
    before = kernel.place(TARGET)
    monkeypatch.setattr(prepare, "KERNEL_CODE", ("ops",))
    assert kernel.place(TARGET) != before


def test_a_format_that_does_not_fit_says_why():
    kernel = prepare.Kernel(Case("small", LINEAR, "balanced", 0.5), "joint")
    with pytest.raises(ValueError, match="no tiles of the matrix are empty"):
        prepare.build(kernel, TARGET, kernel.place(TARGET))


def test_names_are_unique_and_weights_do_not_depend_on_rows():
    names = [k.name for cases in (small, papers, depthwise, grid) for k in prepare.kernels(cases())]
    assert len(names) == len(set(names))
    one, many = (Case("w", Contraction((n,), 64, 32), "balanced", 0.75) for n in (1, 9))
    assert np.array_equal(one.weight(), many.weight())


@pytest.mark.parametrize("case", list(small()), ids=lambda case: case.name)
def test_masks_have_their_sparsity(case):
    assert float((case.weight() == 0).mean()) == pytest.approx(case.sparsity, abs=0.06)


def test_data_of_chips_are_code(tmp_path, monkeypatch):
    """Tiles follow from them: after a fit, what was built before is another kernel."""
    package = tmp_path / "selection"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "h200.json").write_text('{"step": 1}')
    found = type("Package", (), {"__file__": str(package / "__init__.py")})
    monkeypatch.setattr(prepare.importlib, "import_module", lambda name: found)
    before = prepare.code_version.__wrapped__("selection")
    assert prepare.code_version.__wrapped__("selection") == before
    (package / "h200.json").write_text('{"step": 2}')
    assert prepare.code_version.__wrapped__("selection") != before
    assert "selection" in prepare.KERNEL_CODE
