"""Models of transformers as their users call them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tests.zoo import cache_name, package, transformers_model
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.structure import plain

FAST = ts.Config(measure=False)
WORDS = torch.arange(12).reshape(2, 6)


def test_a_prompt_and_a_step_with_its_cache(tmp_path):
    sizes = {"vocab_size": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
    model = transformers_model("GPT2LMHeadModel", "GPT2Config", **sizes)
    cache = cache_name(model)
    with torch.no_grad():
        expected = model(WORDS, use_cache=True)
        after = model(WORDS[:, :1], use_cache=False, **{cache: expected[cache]})
        prompt = model(WORDS, use_cache=True)
    library = ts.compile(model, {"input_ids": WORDS, "use_cache": True}, config=FAST)
    found = library(input_ids=WORDS, use_cache=True)
    assert type(found) is type(prompt)
    assert type(found[cache]) is type(prompt[cache])
    torch.testing.assert_close(found.logits, prompt.logits, rtol=1e-4, atol=1e-5)
    deployed = runtime.load(library.export(tmp_path / "a"))(WORDS.numpy())
    assert deployed[cache].keys() == {"key_cache", "value_cache"}
    step = ts.compile(
        model,
        {"input_ids": WORDS[:, :1], cache: prompt[cache], "use_cache": False},
        config=FAST,
    )
    for given in (found[cache], plain(found[cache])):
        got = step(input_ids=WORDS[:, :1], use_cache=False, **{cache: given})
        torch.testing.assert_close(got.logits, after.logits, rtol=1e-4, atol=1e-5)


def test_an_encoder_with_a_decoder_and_a_step_with_its_caches(tmp_path):
    sizes = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1}
    model = transformers_model("T5Model", "T5Config", num_heads=2, **sizes)
    cache = cache_name(model)
    words = {"input_ids": WORDS, "decoder_input_ids": WORDS[:, :3]}
    library = ts.compile(model, words, config=FAST)
    found = library(**words)
    with torch.no_grad():
        expected = model(**words)
    assert type(found) is type(expected) and found.keys() == expected.keys()
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    caches = found[cache]
    assert type(caches) is type(expected[cache]) and caches.is_updated == {0: True}
    deployed = runtime.load(library.export(tmp_path / "a"))(WORDS.numpy(), WORDS[:, :3].numpy())
    names = {"self_attention_cache", "cross_attention_cache"}
    assert deployed[cache].keys() == names
    states = (found.encoder_last_hidden_state,)
    step = {"decoder_input_ids": WORDS[:, 3:4], "encoder_outputs": states, "use_cache": False}
    one = ts.compile(model, {**step, cache: copy.deepcopy(caches)}, config=FAST)
    with torch.no_grad():
        after = model(**step, **{cache: copy.deepcopy(caches)}).last_hidden_state
    for given in (caches, plain(caches)):
        got = one(**step, **{cache: given}).last_hidden_state
        torch.testing.assert_close(got, after, rtol=1e-4, atol=1e-5)


def test_masks_and_positions_counted_from_them():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"vocab_size": 64, "intermediate_size": 32, "max_position_embeddings": 16}
    model = transformers_model("RobertaModel", "RobertaConfig", **sizes)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    words = {"input_ids": WORDS + 2, "attention_mask": mask}
    library = ts.compile(model, words, config=FAST)
    with torch.no_grad():
        expected = model(**words)
    found = library(**words)
    assert type(found) is type(expected) and found.keys() == expected.keys()
    for got, wanted in zip(found.values(), expected.values(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_sizes_of_tables_are_left_open():
    """A model with places for a plane of its own size is one for all others, too."""
    transformers = package("transformers")
    from transformers.utils.generic import torch_int

    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4
    )
    model = transformers.Dinov2Model(config).eval()
    shapes = ({2: 4 * Dim("h", min=2, max=8), 3: 4 * Dim("w", min=2, max=8)},)
    found = load(model, (torch.rand(1, 3, 16, 16),), dynamic_shapes=shapes)
    assert found.bounds == {"h": (2, 8), "w": (2, 8)}
    assert found.ranges == ()
    assert torch_int(2.5) == 2
