"""The engine: a model, its cache, and the loop that serves requests. One thread drives it; the server has it in one."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import replace
from functools import partial

import torch

from pagesim.engine.budget import MemoryAccount, plan_memory
from pagesim.engine.cache_manager import make_cache
from pagesim.engine.config import EngineConfig
from pagesim.engine.errors import ConfigError, MemoryBudgetError, RequestError
from pagesim.engine.kv_cache import KvCache
from pagesim.engine.models.model import load_model
from pagesim.engine.models.tokenizer import Detokenizer
from pagesim.engine.outputs import RequestOutput, StepOutput
from pagesim.engine.profile import peak_bytes
from pagesim.engine.request import Request, make_sequences
from pagesim.engine.runner import Runner
from pagesim.engine.sampling import SamplingParams, sample_seed
from pagesim.engine.scheduler import Scheduler
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step
from pagesim.kernels.backends import backend_named

Prompt = str | Many[int]


class Engine:
    """Serves requests by `config`. `audit`: every cache slot holds NaN until it is written, and no logit may be NaN.

    `on_step` is shown every finished step, who finished in it, and when it was scheduled, in seconds since the engine
    was made: what `step_log` writes. Raises EngineError on a model, an option or a memory budget that cannot be
    served.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        audit: bool = False,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[Step, list[Sequence], float], None] = lambda step, finished, t_s: None,
    ) -> None:
        self.config = config
        device = _device(config.device)
        self.backend = backend_named(config.backend, device, config.block_size)
        self.model = load_model(config.model, config.dtype, device, config.seed, pack=True)
        self.max_model_len = _max_model_len(config, self.model.config.max_position_embeddings)
        weights = self.model.weights
        self.account: MemoryAccount = plan_memory(config, weights, lambda: peak_bytes(config, weights, self.backend))
        self.cache = make_cache(config, self.account.num_blocks, self.max_model_len)
        if self.cache.max_slots < self.max_model_len - 1:  # the last token is never cached
            raise MemoryBudgetError(
                f"max_model_len is {self.max_model_len}, and the cache holds {self.cache.max_slots} tokens of one "
                f"sequence; accepted: at most {self.cache.max_slots + 1} ({'; '.join(self.account.lines())})"
            )
        self.tensors = KvCache.allocate(weights, self.cache.num_rows, self.cache.row_tokens, audit=audit)
        self.scheduler = Scheduler(config, self.cache, self.max_model_len)
        self.runner = Runner(config, weights, self.max_model_len, self.tensors, self.backend, audit=audit)
        self._clock = clock
        self._on_step = on_step
        self._made_s = clock()
        self._requests: dict[str, Request] = {}
        self._owners: dict[str, tuple[Request, int]] = {}  # by sequence id
        self._num_requests = 0

    def report(self) -> list[str]:
        """What runs, where, and what its memory goes to: a few lines to print."""
        config, tokens = self.config, self.cache.num_rows * self.cache.row_tokens
        dtype = str(self.model.weights.embedding.dtype).removeprefix("torch.")
        graphs = "no CUDA graphs" if self.runner.graphs is None else "CUDA graphs for decodes"
        return [
            f"model        {self.model.name}, {config.device}, {dtype}",
            f"tokenizer    {self.model.tokenizer.description}",
            f"products     {'oneDNN, packed weights' if self.model.weights.head.is_packed else 'torch linear'}",
            f"attention    {self.backend.name}: {self.backend.description}, {graphs}",
            f"cache kind   {config.cache}, {tokens} slots, max_model_len {self.max_model_len}",
            *self.account.lines(),
        ]

    @property
    def has_work(self) -> bool:
        """Whether any request runs or waits."""
        return self.scheduler.has_work

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Of the requests that run or wait, in order of arrival."""
        return tuple(self._requests)

    def add_request(
        self,
        prompt: Prompt,
        sampling: SamplingParams,
        *,
        request_id: str | None = None,
        salt: str | None = None,
        adapter: str | None = None,
        priority: int = 0,
        stream_text: bool = False,
    ) -> str:
        """Let a text, or token ids, wait to be continued. Returns the request's id.

        `salt`, `adapter`: cached blocks are shared only between requests in which both are equal. `priority`: lower
        goes first, under that policy. Raises RequestError on what could never be served; nothing is held then.
        """
        number = self._num_requests
        request_id = str(number) if request_id is None else request_id
        if request_id in self._requests:
            raise RequestError(f"request {request_id!r} is running or waiting already; accepted: an id of its own")
        seed = sample_seed(self.config.seed, number) if sampling.seed is None else sampling.seed
        make = partial(Sequence, salt=salt, adapter=adapter, priority=priority)
        sequences = make_sequences(make, request_id, self._token_ids(prompt), replace(sampling, seed=seed))
        ends = frozenset() if sampling.ignore_eos else self.model.eos_token_ids
        detokenizers = tuple(Detokenizer(self.model.tokenizer) for _ in sequences) if stream_text else ()
        request = Request(request_id, sequences, sampling.stop_token_ids | ends, detokenizers, self._clock())
        self.scheduler.add(*request.entries)
        self._num_requests += 1
        self._requests[request_id] = request
        self._owners.update({sequence.id: (request, index) for index, sequence in enumerate(sequences)})
        return request_id

    def step(self) -> StepOutput:
        """Schedule and compute one step.

        Raises MemoryBudgetError, with the account, if memory runs out; the requests of that step are ended then, and
        those that wait are not (`request_ids`).
        """
        scheduled_s = self._clock() - self._made_s
        step = self.scheduler.schedule()
        sampled = self._run(step)
        stopped = [id for id, token in sampled.items() if token in self._owners[id][0].stops]
        ended = self.scheduler.finish_step(step, sampled, stopped)
        self._on_step(step, ended, scheduled_s)
        now_s = self._clock()
        tokens = []
        for id, token in sampled.items():
            request, index = self._owners[id]
            if request.first_token_s is None:
                request.first_token_s = now_s
            tokens.append(request.new_token(index, token))
        requests = dict.fromkeys(self._owners[sequence.id][0].id for sequence in ended)  # each once, in order
        outputs = [self._close(self._requests[id], now_s) for id in requests if self._requests[id].finished]
        return StepOutput(now_s, tuple(tokens), tuple(outputs))

    def abort(self, request_id: str) -> RequestOutput:
        """End a request now; its blocks are free at once. Raises RequestError if none of that id runs or waits."""
        request = self._requests.get(request_id)
        if request is None:
            raise RequestError(f"no request {request_id!r} is running or waiting; accepted: one that is")
        for sequence in request.sequences:
            if sequence.finish_reason is None:
                self.scheduler.abort(sequence.id)
        return self._close(request, self._clock())

    def generate(self, prompts: Many[Prompt], sampling: SamplingParams | Many[SamplingParams]) -> list[RequestOutput]:
        """Serve all prompts, texts or token ids, to their ends; the outputs are in the order of the prompts.

        Raises RequestError if one of them could never be served; none is served then.
        """
        each = [sampling] * len(prompts) if isinstance(sampling, SamplingParams) else list(sampling)
        if len(each) != len(prompts):
            raise RequestError(f"{len(each)} sampling parameters for {len(prompts)} prompts; accepted: as many, or one")
        ids: list[str] = []
        try:
            for prompt, params in zip(prompts, each, strict=True):
                ids.append(self.add_request(prompt, params))
        except RequestError:
            for id in ids:
                self.abort(id)
            raise
        outputs: dict[str, RequestOutput] = {}
        while self.has_work:
            outputs |= {output.request_id: output for output in self.step().finished}
        return [outputs[id] for id in ids]

    def _token_ids(self, prompt: Prompt) -> list[int]:
        token_ids = self.model.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        vocab = self.model.config.vocab_size
        if token_ids and not 0 <= min(token_ids) <= max(token_ids) < vocab:
            bad = next(token for token in token_ids if not 0 <= token < vocab)
            raise RequestError(f"the prompt has token {bad}; accepted: 0 to {vocab - 1}")
        return token_ids

    def _run(self, step: Step) -> dict[str, int]:
        try:
            return self.runner.run(step)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            for id in dict.fromkeys(self._owners[chunk.sequence.id][0].id for chunk in step.chunks):
                self.abort(id)
            where = f"step {step.number}, {step.scheduled_tokens} tokens of {len(step.chunks)} sequences"
            raise MemoryBudgetError(f"out of memory in {where} ({'; '.join(self.account.lines())})") from None

    def _close(self, request: Request, now_s: float) -> RequestOutput:
        del self._requests[request.id]
        for sequence in request.sequences:
            del self._owners[sequence.id]
        return request.output(self.model.tokenizer, now_s)


def _device(name: str) -> torch.device:
    if name == "cpu":
        return torch.device("cpu")
    if not name.startswith("cuda") or not torch.cuda.is_available():
        known = "cpu, cuda" if torch.cuda.is_available() else "cpu; no CUDA device was found"
        raise ConfigError(f"device is {name}; accepted: {known}")
    return torch.device(name)


def _max_model_len(config: EngineConfig, model_limit: int) -> int:
    if config.max_model_len is not None and config.max_model_len > model_limit:
        raise ConfigError(f"max_model_len is {config.max_model_len}; accepted: at most the model's, {model_limit}")
    return config.max_model_len or model_limit
