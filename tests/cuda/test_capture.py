"""What the driver that stands in refuses while a graph is captured, as NVIDIA's does."""

from __future__ import annotations

import pytest

PROGRAM = """
import ctypes, json

cuda = ctypes.CDLL("libcudart.so.13")
GLOBAL, RELAXED = 0, 2
BLOCKING, APART = 0, 1


def made(flags=BLOCKING):
    stream = ctypes.c_void_p()
    cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), flags)
    return stream


def memory(*_):
    place = ctypes.c_void_p()
    return cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(256))


def copied(stream):
    return cuda.cudaMemcpyAsync(first, second, ctypes.c_size_t(64), 3, stream)


def event(on, stream):
    found = ctypes.c_void_p()
    cuda.cudaEventCreate(ctypes.byref(found))
    cuda.cudaEventRecord(found, on)
    return cuda.cudaEventSynchronize(found)


first, second = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(first), ctypes.c_size_t(64))
cuda.cudaMalloc(ctypes.byref(second), ctypes.c_size_t(64))
cuda.cudaMemsetAsync(second, 7, ctypes.c_size_t(64), None)
other = made()


def tried(act, mode, flags):
    stream, graph = made(flags), ctypes.c_void_p()
    cuda.cudaStreamBeginCapture(stream, mode)
    status = act(stream)
    return status, cuda.cudaStreamEndCapture(stream, ctypes.byref(graph)), bool(graph.value)


print(json.dumps(tried({act}, {mode}, {flags})))
"""
FINE, UNSUPPORTED, IMPLICIT = [0, 0, True], [900, 901, False], [906, 901, False]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("act", "mode", "flags", "found"),
    [
        ("copied", "GLOBAL", "BLOCKING", FINE),
        ("cuda.cudaStreamSynchronize", "RELAXED", "APART", UNSUPPORTED),
        ("lambda _: cuda.cudaStreamSynchronize(other)", "GLOBAL", "BLOCKING", FINE),
        ("lambda _: cuda.cudaStreamSynchronize(None)", "GLOBAL", "BLOCKING", UNSUPPORTED),
        ("lambda _: cuda.cudaStreamSynchronize(None)", "GLOBAL", "APART", FINE),
        ("lambda stream: event(stream, stream)", "RELAXED", "APART", UNSUPPORTED),
        ("lambda stream: event(other, stream)", "RELAXED", "APART", FINE),
        ("memory", "GLOBAL", "APART", UNSUPPORTED),
        ("memory", "RELAXED", "APART", FINE),
        ("lambda _: cuda.cudaFree(first)", "GLOBAL", "APART", UNSUPPORTED),
        ("lambda _: copied(None)", "GLOBAL", "BLOCKING", IMPLICIT),
        ("lambda _: copied(None)", "GLOBAL", "APART", FINE),
        (
            "lambda stream: (copied(None), copied(stream))[1]",
            "GLOBAL",
            "BLOCKING",
            [901, 901, False],
        ),
    ],
)
def test_what_is_refused_spoils_the_graph(act, mode, flags, found, fake_cuda):
    code = PROGRAM
    for name, value in {"act": act, "mode": mode, "flags": flags}.items():
        code = code.replace(f"{{{name}}}", value)
    assert fake_cuda.run(code) == found
