"""What a server says of itself at /metrics, by vLLM's names."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.errors import UsageError
from pagesim.validate.server.errors import NonsenseError
from pagesim.validate.server.http import Server

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
USAGE = "vllm:kv_cache_usage_perc"
PREEMPTIONS = "vllm:num_preemptions_total"
QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
GENERATED = "vllm:generation_tokens_total"
CONFIG = "vllm:cache_config_info"
ASKED_FOR = (RUNNING, WAITING, USAGE, PREEMPTIONS, QUERIES, HITS, GENERATED)


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The server's pool as it says itself. `num_blocks` counts the null block. None: it does not say."""

    num_blocks: int | None = None
    block_size: int | None = None
    prefix_caching: bool | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """`values`: of those of ASKED_FOR that are there. `cache`: all None if it says nothing of its pool."""

    values: dict[str, float]
    cache: CacheConfig

    @property
    def missing(self) -> list[str]:
        """Names that are not there."""
        return [name for name in ASKED_FOR if name not in self.values]

    @property
    def num_requests(self) -> float:
        """That run or wait."""
        return self.values.get(RUNNING, 0.0) + self.values.get(WAITING, 0.0)


def read_metrics(server: Server) -> Metrics:
    """Raises GoneError, NonsenseError and RefusedError; UsageError if several engines stand behind the server."""
    return parse_metrics(server.get("/metrics"))


def parse_metrics(text: bytes) -> Metrics:
    """Of Prometheus's text format. Raises NonsenseError on what is none, UsageError on several engines."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[str, float] = {}
    cache, engines = CacheConfig(), set()
    try:
        for family in text_string_to_metric_families(text.decode("utf-8")):
            for sample in family.samples:
                if sample.name in ASKED_FOR:
                    values[sample.name] = values.get(sample.name, 0.0) + float(sample.value)
                    engines.add(sample.labels.get("engine", ""))
                elif sample.name == CONFIG:
                    cache = _cache(sample.labels)
    except (ValueError, KeyError, IndexError) as error:
        raise NonsenseError(
            f"GET /metrics: not Prometheus's text format ({str(error).partition(chr(10))[0]})"
        ) from error
    if len(engines) > 1:
        raise UsageError(f"{len(engines)} engines stand behind the server; accepted: one, with one pool")
    return Metrics(values, cache)


def _cache(labels: dict[str, str]) -> CacheConfig:
    num_blocks, block_size = _count(labels, "num_gpu_blocks"), _count(labels, "block_size")
    caching = {"True": True, "False": False}.get(labels.get("enable_prefix_caching", ""))
    return CacheConfig(num_blocks, block_size, caching)


def _count(labels: dict[str, str], name: str) -> int | None:
    text = labels.get(name, "None")
    if text == "None":
        return None
    if not text.isdecimal() or not int(text):
        raise NonsenseError(f"GET /metrics: {CONFIG} says {name}={text!r}, which is no count")
    return int(text)
