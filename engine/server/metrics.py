"""What Prometheus reads: vLLM's names, where the meaning is the same.

State and sums are read from the engine when somebody asks; only the times of tokens are noted as they come. A sample
counts as a request, as n samples are n requests in vLLM. Left out: what only vLLM has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine


LABELS = ("model_name", "engine")
ENGINE = "0"  # there is one
FINISH_REASONS = ("stop", "length", "abort")
LATENCY_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0,
)  # fmt: skip


class Metrics:
    """`num_arriving`: samples that the server took on and the engine has not seen yet; they wait too."""

    def __init__(self, engine: Engine, name: str, num_arriving: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineState(engine, name, num_arriving))
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", "From a request's arrival on", name)
        self._itl = self._histogram("vllm:inter_token_latency_seconds", "Between two tokens of a sample", name)
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token", name)
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Of samples that have their first token", name)
        success = Counter("vllm:request_success", "Ended", (*LABELS, "finished_reason"), registry=self._registry)
        self._ended = {reason: success.labels(name, ENGINE, reason) for reason in FINISH_REASONS}

    def first_token(self, ttft_s: float, prompt_tokens: int) -> None:
        """A sample has its first token."""
        self._ttft.observe(ttft_s)
        self._prompt_tokens.inc(prompt_tokens)

    def next_token(self, gap_s: float) -> None:
        """A sample has a further token."""
        self._itl.observe(gap_s)

    def finished(self, reason: str, e2e_s: float) -> None:
        """A sample has its last token."""
        self._ended[reason].inc()
        self._e2e.observe(e2e_s)

    def aborted(self) -> None:
        """A sample's reader has gone."""
        self._ended["abort"].inc()

    def text(self) -> bytes:
        """All of it, in Prometheus's text format 0.0.4."""
        return generate_latest(self._registry)

    def _histogram(self, metric: str, what: str, name: str) -> Histogram:
        family = Histogram(metric, what, LABELS, buckets=LATENCY_BUCKETS_S, registry=self._registry)
        return family.labels(name, ENGINE)

    def _counter(self, metric: str, what: str, name: str) -> Counter:
        return Counter(metric, what, LABELS, registry=self._registry).labels(name, ENGINE)


class _EngineState(Collector):
    """Reads single numbers of an engine that another thread drives."""

    def __init__(self, engine: Engine, name: str, num_arriving: Callable[[], int]) -> None:
        self._engine = engine
        self._name = name
        self._num_arriving = num_arriving

    def collect(self) -> Iterator[Metric]:
        scheduler, cache, totals = self._engine.scheduler, self._engine.cache, self._engine.scheduler.totals
        usable = cache.num_blocks - 1 if cache.is_paged else cache.num_blocks  # block 0 is the null block
        gauges = {
            "vllm:num_requests_running": ("Samples that run", len(scheduler.running)),
            "vllm:num_requests_waiting": (
                "Samples that wait for admission",
                self._num_arriving() + len(scheduler.waiting),
            ),
            "vllm:kv_cache_usage_perc": ("Held part of the cache's blocks, 1 is all", cache.blocks_used / usable),
        }
        counters = {
            "vllm:num_preemptions": ("Samples that were preempted", totals.preemptions),
            "vllm:prefix_cache_queries": ("Tokens looked up at first admission", totals.prefix_queries_first),
            "vllm:prefix_cache_hits": ("Tokens found in the prefix cache then", totals.prefix_hits_first),
            "vllm:generation_tokens": ("Tokens sampled", totals.sampled_tokens),
        }
        for metric, (what, value) in gauges.items():
            gauge = GaugeMetricFamily(metric, what, labels=LABELS)
            gauge.add_metric((self._name, ENGINE), value)
            yield gauge
        for metric, (what, value) in counters.items():
            counter = CounterMetricFamily(metric, what, labels=LABELS)
            counter.add_metric((self._name, ENGINE), value)
            yield counter
        if cache.is_paged:
            yield self._cache_config()

    def _cache_config(self) -> Metric:
        """What the blocks are, in labels, as vLLM says it; `num_gpu_blocks` counts the null block."""
        said = {
            "block_size": self._engine.cache.block_size,
            "num_gpu_blocks": self._engine.cache.num_blocks,
            "enable_prefix_caching": self._engine.config.prefix_caching,
        }
        info = GaugeMetricFamily("vllm:cache_config_info", "The paged cache", labels=("engine", *said))
        info.add_metric((ENGINE, *map(str, said.values())), 1)
        return info
