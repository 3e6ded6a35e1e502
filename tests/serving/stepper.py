"""The judge: the scheduler one step, one token, one block at a time, with real block numbers and literal tokens.

Written for clearness from the rules alone; it shares no mechanism with `pagesim.sim.serving`, only the configuration,
the step-time model and the trace. Slow on purpose.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.samples import independent_samples
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace


@dataclass(eq=False)
class Request:
    row: int
    arrival_s: float
    tokens: list[Any]  # all known: the prompt, then outputs as they are sampled
    prompt_tokens: int
    output_tokens: int
    salt: Any
    adapter: Any
    priority: int = 0
    computed: int = 0
    table: list[Block] = field(default_factory=list)
    seen: int = 0  # high-water mark of computed positions
    sampled_s: list[float] = field(default_factory=list)
    admitted_s: float | None = None
    returns: bool = False
    hashes: list[Any] = field(default_factory=list)
    on_host: int | None = None  # blocks of it that lie there
    followers: list[Request] = field(default_factory=list)  # samples that will share its prompt

    def hash_of(self, number: int, size: int) -> Any:
        """Hash of the block `number`: interned ids, so that equal numbers mean equal beginnings."""
        while len(self.hashes) <= number:
            k = len(self.hashes)
            parent = self.hashes[-1] if self.hashes else None
            extras = (self.adapter, self.salt if k == 0 else None)
            key = (parent, tuple(self.tokens[k * size : (k + 1) * size]), extras)
            if key not in INTERNED:
                INTERNED[key] = len(CONTENTS)
                CONTENTS.append(key)
            self.hashes.append(INTERNED[key])
        return self.hashes[number]


INTERNED: dict[Any, int] = {}
CONTENTS: list[Any] = []  # by hash: (hash of the block before, tokens, extras)


@dataclass(eq=False)
class Block:
    references: int = 0
    hash: Any = None
    inserted: int = 0  # when it got its hash, by count


class Pool:
    def __init__(self, config: ServingConfig) -> None:
        self.size, self.caching = config.block_size, config.prefix_caching
        self.blocks = [Block() for _ in range(config.num_blocks - 1)]
        self.free = list(self.blocks)
        self.cached: dict[Any, list[Block]] = {}
        self.unit = config.prefix_match_unit
        self.evict, self.rng, self.inserted = config.evict, np.random.default_rng(config.evict_seed), 0
        self.next_use: Any = None  # of a hash: how far off, told by who knows the requests

    def pick(self) -> Block:
        """The next free block: plain ones stand in front, those with a hash in the order in which they were freed."""
        if self.free[0].hash is None or self.evict == "lru":
            return self.free[0]
        if self.evict == "fifo":
            return min(self.free, key=lambda block: block.inserted)
        if self.evict == "random":
            return self.free[int(self.rng.random() * len(self.free))]
        return max(self.free, key=lambda block: self.next_use(block.hash))

    def unfree(self, block: Block) -> None:
        if self.evict == "random" and block.hash is not None:  # the last takes its place
            place, last = self.free.index(block), self.free.pop()
            if last is not block:
                self.free[place] = last
        else:
            self.free.remove(block)

    def allocate(self) -> Block:
        block = self.pick()
        self.unfree(block)
        if block.hash is not None:
            copies = self.cached[block.hash]
            copies.remove(block)
            if not copies:
                del self.cached[block.hash]
            block.hash = None
        block.references = 1
        return block

    def release(self, request: Request) -> None:
        plain = []
        for block in reversed(request.table):
            block.references -= 1
            if block.references == 0:
                if block.hash is None:
                    plain.append(block)
                else:
                    self.free.append(block)
        self.free[:0] = plain
        request.table = []

    def lookup(self, request: Request) -> list[Block]:
        found: list[Block] = []
        if self.caching:
            for number in range((len(request.tokens) - 1) // self.size):
                copies = self.cached.get(request.hash_of(number, self.size))
                if not copies:
                    break
                found.append(copies[0])
        return found

    def match(self, request: Request, found: list[Block]) -> int:
        """Tokens that are found: those blocks, and what the next has in common with any that can be found."""
        number = len(found)
        start = number * self.size
        if not self.unit:
            return start
        before = request.hash_of(number - 1, self.size) if number else None
        extras = (request.adapter, None if number else request.salt)
        best = 0
        for parent, tokens, others in map(CONTENTS.__getitem__, self.cached):
            if (parent, others) == (before, extras):
                for common, (theirs, ours) in enumerate(zip(tokens, request.tokens[start:], strict=False), 1):
                    if theirs != ours:
                        break
                    best = max(best, common)
        return max(start, min(start + best, len(request.tokens) - 1) // self.unit * self.unit)

    def hash_full(self, request: Request, computed: int) -> None:
        if self.caching:
            for number in range(computed // self.size):
                block = request.table[number]
                if block.hash is None:
                    block.hash = request.hash_of(number, self.size)
                    self.inserted += 1
                    block.inserted = self.inserted
                    self.cached.setdefault(block.hash, []).append(block)

    def check(self, running: list[Request]) -> None:
        held = {id(block) for request in running for block in request.table}
        assert len(held) + len(self.free) == len(self.blocks)
        holders = Counter(id(block) for request in running for block in request.table)
        assert all(block.references == holders[id(block)] for block in self.blocks)
        assert not held & {id(block) for block in self.free}


class Stepper:
    def __init__(
        self, trace: Trace, config: ServingConfig, step_time: StepTime, priority: list[int] | None = None
    ) -> None:
        together = trace.n is not None and config.fork == "cow"
        n = trace.n.tolist() if together else None
        trace = independent_samples(trace)
        self.config, self.step_time, self.trace = config, step_time, trace
        self.pool = Pool(config)
        self.requests = [self.request(row, priority) for row in range(len(trace))]
        heads, self.rejected, rest = [], [], list(self.requests)
        for count in n or [1] * len(trace):
            group, rest = rest[:count], rest[count:]
            if self.can_serve(group[0]) and count <= self.seats():
                heads.append(group[0])
                group[0].followers = group[1:]
            else:
                self.rejected += group
        self.coming = heads
        self.forks = dict.fromkeys(("forks", "blocks_saved", "blocks_copied", "prompt_tokens_saved"), 0)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.rows: list[dict[str, Any]] = []
        self.accounts: list[dict[str, int]] = []
        self.gaps: list[float] = []
        self.totals = dict.fromkeys(
            ("preemptions", "scheduled_tokens", "sampled_tokens", "recomputed_tokens", "prefix_queries_first",
             "prefix_hits_first", "prefix_queries_return", "prefix_hits_return"), 0
        )  # fmt: skip
        self.now = 0.0
        self.swaps = dict.fromkeys(("swapped", "recomputed", "blocks_out", "blocks_in", "peak_host_blocks"), 0)
        self.admitting: Request | None = None
        self.pool.next_use = self.next_use

    def next_use(self, block_hash: Any) -> float:
        """0: of somebody who waits to come back; else how many arrivals off."""
        hashes = [(r, {r.hash_of(k, self.pool.size) for k in range((len(r.tokens) - 1) // self.pool.size)})
                  for r in self.waiting + self.coming if r is not self.admitting]  # fmt: skip
        return min((0 if r.returns else 1 + r.row for r, ahead in hashes if block_hash in ahead), default=math.inf)

    def request(self, row: int, priority: list[int] | None) -> Request:
        trace = self.trace
        prompt = int(trace.prompt_tokens[row])
        if trace.hash_ids is None:
            tokens: list[Any] = [("prompt", row, j) for j in range(prompt)]
        else:
            ids, each = trace.hash_ids[row].tolist(), trace.hash_block_tokens
            assert each is not None
            tokens = [(ids[j // each], j % each) for j in range(prompt)]
        salt = None if trace.cache_salt is None else trace.cache_salt[row]
        adapter = None if trace.adapter is None else trace.adapter[row]
        of = 0 if priority is None else priority[row]
        return Request(
            row, float(trace.arrival_s[row]), tokens, prompt, int(trace.output_tokens[row]), salt, adapter, of
        )

    def seats(self) -> int:
        """Samples of one prompt become several in one step, which must have a token for each."""
        c = self.config
        return c.max_num_seqs if c.fork == "none" else min(c.max_num_seqs, c.token_budget)

    def can_serve(self, r: Request) -> bool:
        c = self.config
        passes = r.prompt_tokens + r.output_tokens - 1
        return (
            r.prompt_tokens + r.output_tokens <= c.max_model_len
            and -(-passes // c.block_size) < c.num_blocks
            and (c.chunked_prefill or passes <= c.token_budget)
        )

    def run(self) -> Stepper:
        while self.coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, self.coming[0].arrival_s)
            while self.coming and self.coming[0].arrival_s <= self.now:
                self.waiting.append(self.coming.pop(0))
            self.step()
        return self

    def step(self) -> None:
        c = self.config
        self.budget = c.token_budget
        self.grants: dict[Request, int] = {}
        self.copied = 0  # blocks between pool and host
        self.asked: int | None = None  # blocks that the head of the queue does not get
        preempted: list[Request] = []
        admitted: list[tuple[int, int]] = []
        index = 0
        while index < len(self.running) and self.budget > 0:
            request = self.running[index]
            new = len(request.tokens) - request.computed
            if c.long_prefill_threshold:
                new = min(new, c.long_prefill_threshold)
            new = min(new, self.budget, c.max_model_len - request.computed - 1)
            missing = -(-(request.computed + new) // c.block_size) - len(request.table)
            gone = False
            while missing + self.must_copy(request) > len(self.pool.free):
                victim = self.victim()
                place = self.running.index(victim)
                self.running.remove(victim)
                if victim in self.grants:
                    self.budget += self.grants.pop(victim)
                if place < index:
                    index -= 1
                self.pool.release(victim)
                self.swap_out(victim)
                victim.returns = True
                preempted += [victim, *victim.followers]
                self.waiting.insert(0, victim)
                if victim is request:
                    gone = True
                    break
            if gone:
                break
            if self.must_copy(request):
                shared = request.computed // c.block_size
                request.table[shared].references -= 1
                request.table[shared] = self.pool.allocate()
                self.forks["blocks_copied"] += 1
                self.forks["blocks_saved"] -= 1
            request.table += [self.pool.allocate() for _ in range(missing)]
            self.pool.hash_full(request, request.computed + new)
            self.grants[request] = new
            self.budget -= new
            index += 1
        if not preempted:
            while self.waiting and self.budget > 0:
                if c.policy == "priority":
                    self.waiting.sort(key=lambda r: (r.priority, r.row))
                if self.sequences(self.running) + self.sequences(self.waiting[:1]) > self.seats():
                    break
                hit = self.admit(self.waiting[0])
                if hit is None:
                    break
                admitted += [(self.running[-1].row, hit), *((r.row, 0) for r in self.running[-1].followers)]
        self.finish_step(preempted, admitted)

    def sequences(self, requests: list[Request]) -> int:
        return sum(1 + len(r.followers) for r in requests)

    def must_copy(self, request: Request) -> bool:
        """The next token goes into a block that others hold too."""
        number = request.computed // self.config.block_size
        return number < len(request.table) and request.table[number].references > 1

    def fork(self, request: Request) -> None:
        place = self.running.index(request) + 1
        for follower in request.followers:
            follower.table, follower.computed = list(request.table), request.computed
            follower.admitted_s, follower.seen = request.admitted_s, request.computed
            for block in follower.table:
                block.references += 1
            self.forks["blocks_saved"] += len(follower.table)
            self.forks["prompt_tokens_saved"] += request.computed
        self.forks["forks"] += bool(request.followers)
        self.running[place:place] = request.followers
        self.grants.update(dict.fromkeys(request.followers, 0))
        request.followers = []

    def swap_out(self, victim: Request) -> None:
        c = self.config
        blocks = -(-victim.computed // c.block_size)
        if c.preempt == "swap" and sum(r.on_host or 0 for r in self.waiting) + blocks <= c.host_blocks:
            victim.on_host = blocks
            self.copied += blocks
            self.swaps["swapped"] += 1
            self.swaps["blocks_out"] += blocks
            lie = blocks + sum(r.on_host or 0 for r in self.waiting)
            self.swaps["peak_host_blocks"] = max(lie, self.swaps["peak_host_blocks"])
        else:
            self.swaps["recomputed"] += 1
            victim.computed = 0

    def victim(self) -> Request:
        if self.config.policy == "priority":
            return max(self.running, key=lambda r: (r.priority, r.row))
        if self.config.victim == "last":
            return self.running[-1]
        newest = list(reversed(self.running))
        if self.config.victim == "fewest-blocks":
            return min(newest, key=lambda r: len(r.table))
        pick = max if self.config.victim == "longest" else min
        return pick(newest, key=lambda r: len(r.tokens))

    def admit(self, request: Request) -> int | None:
        c, pool = self.config, self.pool
        found = [] if request.on_host else pool.lookup(request)
        hit = request.computed if request.on_host else pool.match(request, found)
        new = len(request.tokens) - hit
        if c.long_prefill_threshold:
            new = min(new, c.long_prefill_threshold)
        if not c.chunked_prefill and new > self.budget:
            return None
        new = min(new, self.budget)
        spare = int(c.watermark * c.num_blocks) if self.running else 0
        idle = sum(block.references == 0 for block in found)
        whole = len(request.tokens) if c.reserve_full_isl else hit + new
        asked = -(-whole // c.block_size) - len(found) + idle
        if asked > len(pool.free) - spare:
            self.asked = asked
            return None
        for block in found:
            if block.references == 0:
                pool.unfree(block)
            block.references += 1
        self.admitting = request
        request.table = found + [pool.allocate() for _ in range(-(-(hit + new) // c.block_size) - len(found))]
        self.admitting = None
        request.computed = hit
        pool.hash_full(request, hit + new)
        self.grants[request] = new
        self.budget -= new
        self.waiting.pop(0)
        self.running.append(request)
        if request.on_host:
            self.copied += request.on_host
            self.swaps["blocks_in"] += request.on_host
            request.on_host, hit = None, 0
        elif c.prefix_caching:
            kind = "return" if request.returns else "first"
            self.totals[f"prefix_queries_{kind}"] += len(request.tokens)
            self.totals[f"prefix_hits_{kind}"] += hit
        if request.admitted_s is None:
            request.admitted_s = self.now
        return hit

    def account(self) -> dict[str, int]:
        """Every slot of the pool, looked at one by one, while the step runs."""
        size, pool = self.config.block_size, self.pool
        filled: dict[int, int] = {}  # slots with a token, by block
        never: dict[int, int] = {}
        for request in self.running:
            in_the_end = request.prompt_tokens + request.output_tokens - 1
            for number, block in enumerate(request.table):
                tokens = min(size, max(0, request.computed - number * size))
                filled[id(block)] = max(tokens, filled.get(id(block), 0))
                never[id(block)] = size - min(size, in_the_end - number * size)
        asked = self.asked
        free = len(pool.free) * size
        return {
            "used": sum(filled.values()),
            "internal": sum(never.values()),
            "held": len(filled) * size,
            "cached": sum(block.hash is not None for block in pool.free),
            "unusable": free if asked is not None and free >= asked * size else 0,
        }

    def finish_step(self, preempted: list[Request], admitted: list[tuple[int, int]]) -> None:
        pool = self.pool
        pool.check(self.running)
        assert self.sequences(self.running) <= self.config.max_num_seqs
        row = {
            "step": len(self.rows), "t": self.now,
            "running": self.sequences(self.running), "waiting": self.sequences(self.waiting),
            "scheduled_tokens": sum(self.grants.values()), "blocks_used": len(pool.blocks) - len(pool.free),
            "admitted": [list(pair) for pair in admitted], "preempted": [r.row for r in preempted],
        }  # fmt: skip
        tokens = pairs = contexts = 0
        for request, new in self.grants.items():
            start = request.computed
            decoding = len(request.tokens) > request.prompt_tokens and start == len(request.tokens) - 1
            tokens += new
            if decoding:
                contexts += start + 1
            else:
                pairs += new * start + new * (new + 1) // 2
            self.totals["recomputed_tokens"] += max(0, min(start + new, request.seen) - start)
            request.seen = max(request.seen, start + new)
            request.computed += new
        self.totals["scheduled_tokens"] += tokens
        self.totals["preemptions"] += len(preempted)
        self.now += self.step_time.seconds(tokens, pairs, contexts, len(self.grants))
        if self.copied:
            size = self.copied * self.config.block_size * self.config.bytes_per_token
            self.now += size / self.config.host_bandwidth_bytes_per_s
        for request in list(self.running):
            if request in self.grants and request.computed == len(request.tokens):
                self.fork(request)
        self.accounts.append(self.account())
        finished = []
        for request in list(self.running):
            if request in self.grants and request.computed == len(request.tokens):
                request.tokens.append(("output", request.row, len(request.sampled_s)))
                if request.sampled_s:
                    self.gaps.append(self.now - request.sampled_s[-1])
                request.sampled_s.append(self.now)
                self.totals["sampled_tokens"] += 1
                if len(request.sampled_s) == request.output_tokens:
                    finished.append(request)
        for request in finished:
            self.running.remove(request)
            pool.release(request)
        row["finished"] = [request.row for request in finished]
        self.rows.append(row)
