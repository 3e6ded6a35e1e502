"""The decoder, the cache and the scheduler together give what transformers gives, whatever the cutting into steps."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs pagesim[engine]")
pytest.importorskip("transformers", reason="needs pagesim[engine]")

from pathlib import Path

from model_cases import FAMILIES, Reference, check_against, engine_of, prompts, random_shape, write_model

CACHES = ("paged", "reservation", "exact-fit")
BLOCK_SIZES = (1, 2, 3, 7, 16, 32, 100, 128)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reference]:
    """One model of each family."""
    return {
        family: write_model(tmp_path_factory.mktemp(family), family, random_shape(family, 100), seed=100)
        for family in FAMILIES
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_random_configurations(family: str, seed: int, tmp_path: Path) -> None:
    reference = write_model(tmp_path, family, random_shape(family, seed), seed)
    engine = engine_of(
        tmp_path,
        cache=CACHES[seed % 3],
        block_size=(block_size := BLOCK_SIZES[seed]),
        num_blocks=1200 // block_size + 1,
        token_budget=(5, 16, 64)[seed % 3],
    )
    check_against(reference, engine, prompts(seed, 4, 40), max_tokens=8)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_block_sizes(family: str, block_size: int, references: dict[str, Reference]) -> None:
    reference = references[family]
    engine = engine_of(reference.path, block_size=block_size, num_blocks=600 // block_size + 3, token_budget=48)
    check_against(reference, engine, prompts(block_size, 3, 30), max_tokens=6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_chunk_size(family: str, references: dict[str, Reference]) -> None:
    """Prompts of up to 23 tokens in chunks of 1, 2, ... 23, mixed with the decodes of the others."""
    batch = prompts(5, 3, 23)
    for threshold in range(1, 24):
        engine = engine_of(references[family].path, long_prefill_threshold=threshold, token_budget=threshold + 3)
        check_against(references[family], engine, batch, max_tokens=4)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("family", FAMILIES)
def test_caches(family: str, cache: str, references: dict[str, Reference]) -> None:
    """Room for three sequences at a time, so that the pool is used again and again, with what others left in it."""
    engine = engine_of(references[family].path, cache=cache, max_model_len=64, num_blocks=13, max_num_seqs=3)
    check_against(references[family], engine, prompts(3, 9, 40), max_tokens=9)


@pytest.mark.parametrize("cache", ["paged", "exact-fit:best", "exact-fit:worst", "exact-fit:next"])
def test_preemption_and_holes(cache: str, references: dict[str, Reference]) -> None:
    reference = references["qwen2"]
    engine = engine_of(reference.path, cache=cache, max_model_len=64, block_size=4, num_blocks=25)
    check_against(reference, engine, prompts(4, 8, 20), max_tokens=25)
    if cache == "paged":
        assert engine.scheduler.totals.preemptions > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_prefix_hits(family: str, references: dict[str, Reference]) -> None:
    """The second time, all full blocks of the prompts are found; and again while the pool is short of blocks."""
    reference = references[family]
    shared = prompts(1, 2, 20)[1]
    batch = [[*shared, *tail] for tail in prompts(2, 5, 20)]
    for num_blocks in (64, 20):
        engine = engine_of(
            reference.path, prefix_caching=True, block_size=4, num_blocks=num_blocks, max_model_len=72, token_budget=30
        )
        for _ in range(2):
            check_against(reference, engine, batch, max_tokens=10)
        assert engine.scheduler.totals.prefix_hits_first > 0
    assert engine.scheduler.totals.preemptions > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_forks(family: str, references: dict[str, Reference]) -> None:
    """With room for all, and so short of blocks that forks are preempted and come back alone."""
    reference = references[family]
    batch = prompts(6, 4, 18)
    for num_blocks in (64, 24):
        engine = engine_of(reference.path, block_size=4, num_blocks=num_blocks, max_model_len=40, token_budget=30)
        check_against(reference, engine, batch, max_tokens=14, n=3)
    assert engine.scheduler.totals.preemptions > 0
