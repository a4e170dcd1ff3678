"""Only operators, names and expressions of an exporter's form pass."""

from __future__ import annotations

import json

import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.pt2_program import vetted


def tree(context: object) -> str:
    spec = {"type": "builtins.dict", "context": json.dumps(context), "children_spec": []}
    return json.dumps([1, spec])


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("target", "torch.ops.aten.linear.default"),
        ("target", "torch.ops.higher_order.wrap_with_set_grad_enabled"),
        ("target", "_operator.mul"),
        ("as_operator", "torch.sym_max"),
        ("name", "p_0_weight"),
        ("name", ""),
        ("expr_str", "s77"),
        ("expr_str", "2*s0 + FloorDiv(s1, 4) - Max(1, u3)"),
        ("expr_str", "Mul(Integer(2), Symbol('s77', positive=True, integer=True))"),
        ("parameter_name", "layers.0.self-attn.weight"),
        ("in_spec", tree(["x", "y"])),
        ("in_spec", json.dumps([1, {"type": None, "context": None, "children_spec": []}])),
    ],
)
def test_an_exporters_text_passes(key, text):
    assert vetted({"graph": [{key: text}]}, "f.pt2")["graph"] == [{key: text}]


ATTACK = "__import__('os').system('id')"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("target", "torch.os.system"),
        ("target", "torch.ops.aten.from_file.default"),
        ("target", "torch.ops.loader.run.default"),
        ("target", "torch.ops.higher_order.call_torchbind"),
        ("target", "#ns:op"),
        ("target", "_operator.methodcaller"),
        ("as_operator", "torch.hub.load"),
        ("name", f"x\n{ATTACK}"),
        ("as_name", "a b"),
        ("forward_arg_names", "x=1"),
        ("expr_str", ATTACK),
        ("expr_str", "open('x')"),
        ("expr_str", "s0.__class__"),
        ("expr_str", "Symbol('os.system')"),
        ("expr_str", "s0 if 1 else s1"),
        ("parameter_name", "a'b"),
        ("in_spec", tree({"default_factory_module": "antigravity"})),
        ("out_spec", tree([{"__enum__": True, "fqn": "antigravity:x"}])),
        ("out_spec", "not json"),
        ("out_spec", "[]"),
    ],
)
def test_anything_else_is_refused(key, text):
    with pytest.raises(InputError, match=f"as {key}"):
        vetted({"graph": [{"deep": {key: [text]}}]}, "f.pt2")


def test_names_that_are_keys_are_checked():
    for key, name in (("tensor_values", "x y"), ("range_constraints", ATTACK)):
        with pytest.raises(InputError, match=f"as {key}"):
            vetted({key: {name: {}}}, "f.pt2")


@pytest.mark.parametrize("key", ["as_custom_obj", "custom_obj_values", "class_fqn"])
def test_custom_objects_are_refused(key):
    assert vetted({key: {}}, "f.pt2")[key] == {}
    with pytest.raises(InputError, match=f"as {key}"):
        vetted({key: {"a": "b"}}, "f.pt2")


def test_free_text_is_dropped_and_devices_become_the_cpu():
    program = {
        "guards_code": [ATTACK],
        "metadata": {"stack_trace": ATTACK, "nn_module_stack": "k,layer,T", "custom": "{}"},
        "nodes": [{"metadata": {"nn_module_stack": "a\nb"}}],
        "device": {"type": "cuda", "index": 1},
    }
    assert vetted(program, "f.pt2") == {
        "guards_code": [],
        "metadata": {"nn_module_stack": "k,layer,T"},
        "nodes": [{"metadata": {}}],
        "device": {"type": "cpu", "index": None},
    }


def test_long_text_is_cut_in_the_message():
    with pytest.raises(InputError) as caught:
        vetted({"target": "x" * 1000}, "f.pt2")
    assert len(str(caught.value)) < 400
