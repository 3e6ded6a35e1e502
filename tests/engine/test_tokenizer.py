from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="needs pagesim[engine]")

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pagesim.engine.errors import RequestError
from pagesim.engine.models.tokenizer import ByteTokenizer, Detokenizer, HubTokenizer, tokenizer_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer without merges: every byte is a token, so that characters span tokens."""
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tokenizer")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    fast.save_pretrained(folder)
    return folder


def test_a_directory_with_a_tokenizer_uses_it(directory: Path, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(directory, 256)
    assert isinstance(tokenizer, HubTokenizer)
    assert tokenizer.decode(tokenizer.encode("blåbær, 猫")) == "blåbær, 猫"
    assert tokenizer.decode(tokenizer.chat([{"role": "user", "content": "hi"}])) == "<user>hi<assistant>"
    assert isinstance(tokenizer_of(tmp_path, 256), ByteTokenizer)


@given(st.text(max_size=30))
def test_text_comes_out_whole_and_in_order(directory: Path, text: str) -> None:
    tokenizer = tokenizer_of(directory, 256)
    tokens = tokenizer.encode(text)
    detokenizer = Detokenizer(tokenizer)
    pieces = [
        detokenizer.extend(tokens[: count + 1], finished=count + 1 == len(tokens)) for count in range(len(tokens))
    ]
    assert "".join(pieces) == tokenizer.decode(tokens) == text


def test_an_incomplete_character_waits(directory: Path) -> None:
    tokenizer = tokenizer_of(directory, 256)
    tokens = tokenizer.encode("a猫b")
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.extend(tokens[:count], finished=False) for count in range(1, 6)]
    assert pieces == ["a", "", "", "猫", "b"]


def test_bytes_stand_in_for_a_tokenizer() -> None:
    tokenizer = ByteTokenizer(1024)
    assert tokenizer.encode("é") == [0xC3, 0xA9]
    assert tokenizer.decode([0xC3, 0xA9, 1000, 65]) == "é\N{REPLACEMENT CHARACTER}A"
    assert tokenizer.decode(tokenizer.chat([{"role": "user", "content": "hi"}])) == "hi\n"
    with pytest.raises(RequestError, match="byte 195"):
        ByteTokenizer(128).encode("é")
