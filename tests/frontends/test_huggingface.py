"""Models of transformers as their users call them."""

from __future__ import annotations

import torch

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tests.zoo import transformers_model
from tvm_sparse.frontends.structure import plain

FAST = ts.Config(measure=False)
WORDS = torch.arange(12).reshape(2, 6)


def test_a_prompt_and_a_step_with_its_cache(tmp_path):
    sizes = {"vocab_size": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
    model = transformers_model("GPT2LMHeadModel", "GPT2Config", **sizes)
    with torch.no_grad():
        expected = model(WORDS, use_cache=True)
        after = model(WORDS[:, :1], past_key_values=expected.past_key_values, use_cache=False)
        prompt = model(WORDS, use_cache=True)
    library = ts.compile(model, {"input_ids": WORDS, "use_cache": True}, config=FAST)
    found = library(input_ids=WORDS, use_cache=True)
    assert type(found) is type(prompt)
    assert type(found.past_key_values) is type(prompt.past_key_values)
    torch.testing.assert_close(found.logits, prompt.logits, rtol=1e-4, atol=1e-5)
    deployed = runtime.load(library.export(tmp_path / "a"))(WORDS.numpy())
    assert deployed["past_key_values"].keys() == {"key_cache", "value_cache"}
    step = ts.compile(
        model,
        {"input_ids": WORDS[:, :1], "past_key_values": prompt.past_key_values, "use_cache": False},
        config=FAST,
    )
    cache = plain(found.past_key_values)
    for given in (found.past_key_values, cache):
        got = step(input_ids=WORDS[:, :1], past_key_values=given, use_cache=False)
        torch.testing.assert_close(got.logits, after.logits, rtol=1e-4, atol=1e-5)


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
