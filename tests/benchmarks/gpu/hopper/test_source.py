import pytest

from benchmarks.gpu.hopper import source
from benchmarks.gpu.hopper.design import LEFT_OUT, MEMORY, Design, Shape
from benchmarks.gpu.hopper.machine_code import ARCH
from benchmarks.gpu.hopper.points import kernels, points
from tvm_sparse.schedules.cuda.nvrtc import compile_source, compiler_name
from tvm_sparse.schedules.cuda.resources import kernel_resources

needs_compiler = pytest.mark.skipif(compiler_name() is None, reason="no CUDA compiler is installed")

REGISTERS, SHARED = 65536, 233472
"""What an SM of Hopper has."""

COMPILED = [
    (Design("tiles"), Shape(1, 8, 10, 2, 2)),
    (Design("pairs", 8), Shape(1, 16, 6, 2, 4)),
    (Design("scatter", 3), Shape(2, 16, 6, 2, 1)),
    (Design("two_four"), Shape(2, 16, 8, 2, 1)),
]
"""One kernel of each design; a quarter of a second each."""


@needs_compiler
@pytest.mark.parametrize(("design", "shape"), COMPILED)
def test_kernels_compile_without_spills(design, shape, left_out=LEFT_OUT[0]):
    code = compile_source(source.cuda(design, shape, left_out), ARCH)
    used = kernel_resources(code)[source.NAME]
    assert used.stack == 0
    assert used.registers * shape.threads * shape.blocks <= REGISTERS


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(("design", "shape", "left_out"), kernels())
def test_every_measured_kernel_compiles_without_spills(design, shape, left_out):
    test_kernels_compile_without_spills(design, shape, left_out)


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_what_is_left_out_is_named(left_out):
    assert f"using S = Shape<1, 16, 6, 2, {left_out}>;" in source.cuda(*COMPILED[1], left_out)


@pytest.mark.parametrize("rows", [8, 256])
def test_products_name_every_sum(rows):
    text = source.products(rows)
    assert text.count(f"m64n{rows}k16") == 2
    assert text.count(f'"+f"(d[{rows // 2 - 1}])') == 3
    assert f"%{rows // 2 + 4}, 1, 1, 1, 0;" in text  # the descriptor behind four registers


def test_kernels_fit_an_sm():
    for design, shape, _ in kernels():
        size = design.shared_bytes(shape)
        assert size <= MEMORY
        assert shape.blocks * (size + 1024) <= SHARED, (design, shape)
        # Sums of parts lie where the ring was.
        sums = shape.features * shape.rows * 4 if shape.parts > 1 else 0
        assert sums <= size - 1024 - 16 * shape.stages - (2 * shape.groups * 8192) * (
            design.name == "scatter"
        )


def test_points_have_names_of_their_own():
    names = [point.name for point in points()]
    assert len(set(names)) == len(names)
    assert "8192x8192, float16, N=16, balanced 90%, by hand: scatter 3 of 32" in names
