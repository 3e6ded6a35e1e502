"""Models that need no download: shapes by name, filled with seeded random weights.

Capacity and speed do not depend on what the weights are. The texts of such a model mean nothing.
"""

from __future__ import annotations

from typing import Any

RANDOM = "random:"  # before a preset, or the path of a config.json

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 1024,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "dtype": "float32",
    },
    "qwen2.5-0.5b": {
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
    },
}
