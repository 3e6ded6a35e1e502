"""Text in, text out: the tokenizer of a model's directory, or bytes for a model that has none.

The tokenizer is transformers' AutoTokenizer without remote code. Random models read a text as its UTF-8 bytes, one
token each, which is a stand-in and says so; what they write is not text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagesim.engine.errors import ModelError, RequestError

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class ByteTokenizer:
    """A stand-in for random models: token = byte. `description`: what is printed."""

    description = "none: texts are read as UTF-8 bytes, a stand-in"

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        """A prompt's tokens, one per byte. Raises RequestError if the vocabulary is smaller than the bytes need."""
        tokens = list(text.encode("utf-8", "replace"))
        if tokens and max(tokens) >= self._vocab_size:
            raise RequestError(f"the text has byte {max(tokens)}; accepted: below the vocabulary, {self._vocab_size}")
        return tokens

    def decode(self, token_ids: list[int]) -> str:
        """Bytes back to text; tokens past 255 come out as replacement characters."""
        parts = (bytes([token]) if token < 256 else REPLACEMENT.encode() for token in token_ids)
        return b"".join(parts).decode("utf-8", "replace")

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """A conversation: the contents, one after the other."""
        return self.encode("\n".join(message["content"] for message in messages) + "\n")


class HubTokenizer:
    """A model's own tokenizer, from its directory. `description`: what is printed."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(directory), trust_remote_code=False)
        except Exception as error:  # whatever a tokenizer's files can do to the library
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(f"{directory}: its tokenizer cannot be loaded ({reason})") from None
        self.description = type(self._tokenizer).__name__

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, with the special ones that the model expects."""
        tokens: list[int] = self._tokenizer.encode(text)
        return tokens

    def decode(self, token_ids: list[int]) -> str:
        """The text of tokens, without special ones."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return text

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """A conversation by the model's template, up to where the answer begins. Raises RequestError without one."""
        if not getattr(self._tokenizer, "chat_template", None):
            raise RequestError("the model has no chat template; accepted: a plain prompt")
        text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens


Tokenizer = HubTokenizer | ByteTokenizer


def tokenizer_of(directory: Path | None, vocab_size: int) -> Tokenizer:
    """The tokenizer of a directory, or bytes where there is none."""
    if directory is not None and any((directory / name).exists() for name in TOKENIZER_FILES):
        return HubTokenizer(directory)
    return ByteTokenizer(vocab_size)


class Detokenizer:
    """The text of a growing list of tokens, without decoding all of it again at each.

    A character can span tokens: text is given out once it no longer ends in one that is incomplete. Decoding starts a
    few tokens back, since a token's text can depend on what stands before it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._context = 0  # decoding starts here
        self._given = 0  # tokens whose text has been given out

    def extend(self, token_ids: list[int], *, finished: bool) -> str:
        """All tokens so far; returns the text that is new. `finished`: give out even an incomplete character."""
        before = self._tokenizer.decode(token_ids[self._context : self._given])
        whole = self._tokenizer.decode(token_ids[self._context :])
        if len(whole) <= len(before) or (whole.endswith(REPLACEMENT) and not finished):
            return ""
        self._context, self._given = self._given, len(token_ids)
        return whole[len(before) :]
