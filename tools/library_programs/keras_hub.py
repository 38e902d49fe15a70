"""Models of KerasHub from their configurations, with random weights and without a download."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras_hub import models

from .program import Program, floats, ints

TOKENS = {
    "token_ids": ints(100, 2, 12),
    "padding_mask": np.array([[1] * 12, [1] * 7 + [0] * 5], np.int32),
}
SEGMENTS = {**TOKENS, "segment_ids": np.array([[0] * 6 + [1] * 6] * 2, np.int32)}
PAIRS = {
    "encoder_token_ids": ints(100, 2, 8),
    "encoder_padding_mask": np.ones((2, 8), np.int32),
    "decoder_token_ids": ints(100, 2, 6),
    "decoder_padding_mask": np.ones((2, 6), np.int32),
}
SMALL = {"num_layers": 2, "hidden_dim": 32, "intermediate_dim": 64}
ENCODER = {**SMALL, "vocabulary_size": 100, "num_heads": 2}
PLACED = {**ENCODER, "max_sequence_length": 16}
DECODER = {**SMALL, "vocabulary_size": 100, "num_query_heads": 4, "num_key_value_heads": 2}


def backbone(name: str, **options: Any) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    return getattr(models, name)(**options)


def made(name: str, inputs: Any, **options: Any) -> Program:
    return Program(f"`{name}`", lambda: (backbone(name, **options), (inputs,)))


def classifier() -> Any:
    bert = backbone("BertBackbone", **PLACED)
    return models.BertTextClassifier(backbone=bert, num_classes=3), (SEGMENTS,)


def step_with_cache() -> Any:
    model = models.GPT2CausalLM(backbone=backbone("GPT2Backbone", **PLACED))

    def fn(tokens: Any, cache: Any, index: Any) -> Any:
        logits, _, cache = model.call_with_cache(tokens, cache, index)
        return logits, cache

    return fn, (ints(100, 2, 1), floats(2, 2, 2, 16, 2, 16), np.int32(3))


def clip() -> Any:
    options = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
    vision = models.CLIPVisionEncoder(patch_size=4, image_shape=(16, 16, 3), **options)
    text = models.CLIPTextEncoder(
        vocabulary_size=50, embedding_dim=16, max_sequence_length=8, **options
    )
    model = models.CLIPBackbone(vision_encoder=vision, text_encoder=text, projection_dim=16)
    return model, ({"images": floats(2, 16, 16, 3), "token_ids": ints(50, 2, 8)},)


PROGRAMS = [
    made("BertBackbone", SEGMENTS, **PLACED),
    made("RobertaBackbone", TOKENS, **PLACED),
    made("AlbertBackbone", SEGMENTS, embedding_dim=16, **PLACED),
    made("DebertaV3Backbone", TOKENS, **PLACED),
    made("GPT2Backbone", TOKENS, **PLACED),
    made("GPTNeoXBackbone", TOKENS, **PLACED),
    made("OPTBackbone", TOKENS, **PLACED),
    made("BloomBackbone", TOKENS, **ENCODER),
    made("LlamaBackbone", TOKENS, **DECODER),
    made("MistralBackbone", TOKENS, sliding_window=4, **DECODER),
    made("MixtralBackbone", TOKENS, num_experts=4, top_k=2, **DECODER),
    made("GemmaBackbone", TOKENS, head_dim=8, **DECODER),
    made("Qwen3Backbone", TOKENS, head_dim=8, **DECODER),
    made("T5Backbone", PAIRS, **ENCODER),
    made("BartBackbone", PAIRS, **PLACED),
    made(
        "ViTBackbone",
        floats(2, 16, 16, 3),
        image_shape=(16, 16, 3),
        patch_size=4,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        mlp_dim=64,
    ),
    made(
        "DenseNetBackbone",
        floats(2, 32, 32, 3),
        stackwise_num_repeats=[2, 2],
        compression_ratio=0.5,
        growth_rate=8,
    ),
    Program("`CLIPBackbone`", clip),
    Program("`BertTextClassifier`", classifier),
    Program("a step of `GPT2CausalLM` with its cache", step_with_cache),
]
