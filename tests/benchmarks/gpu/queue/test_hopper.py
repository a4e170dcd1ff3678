from benchmarks.gpu.hopper import measure
from benchmarks.gpu.hopper.points import points
from benchmarks.gpu.queue import hopper
from benchmarks.gpu.queue.step import Plan
from tvm_sparse.errors import UnsupportedError


def test_without_a_hopper_they_are_skipped_by_name():
    (piece,) = hopper.pieces(Plan(small=True))
    assert (piece.name, piece.skip) == ("kernels by hand", hopper.MISSING)


def test_every_point_is_a_piece(monkeypatch):
    monkeypatch.setattr(hopper.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(hopper.torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(measure, "row", lambda point, timer: {"case": point.name})
    pieces = list(hopper.pieces(Plan()))
    assert [piece.name for piece in pieces] == [point.name for point in points()]
    assert not any(piece.skip for piece in pieces)
    assert list(pieces[3].run()) == [{"case": pieces[3].name}]
    monkeypatch.setattr(hopper.torch.cuda, "get_device_capability", lambda: (8, 0))
    assert len(list(hopper.pieces(Plan()))) == 1


def test_a_missing_compiler_is_said(monkeypatch):
    def refuse(kernels):
        raise UnsupportedError("target cuda", "no CUDA compiler found", "NVRTC", "install it")

    monkeypatch.setattr(hopper.machine_code, "compile_all", refuse)
    assert "no CUDA compiler found" in hopper.build()


def test_gains_are_told_by_design():
    def row(design, ours, cublas):
        times = {"by hand": {"median_us": ours}, "cublas": {"median_us": cublas}}
        return {"design": design, "times": times}

    rows = [row("tiles", 10.0, 20.0), row("tiles", 10.0, 40.0), row("pairs", 20.0, 10.0)]
    assert hopper.tells(rows) == "tiles 2.00 to 4.00x, pairs 0.50 to 0.50x"
