"""The exercises solved by hand, slowly: lists of slots, of blocks and of requests, and nothing of pagesim.

Each solver takes the sequence of an exercise, as `--explicit` has it, and its parameters, and returns one dictionary of
answers for each question, as a student would write them down.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import numpy as np

Answers = list[dict[str, Any]]


def placement(sequence: str, size: int, policy: str, **_: object) -> Answers:
    if policy == "buddy":
        return buddy(sequence, size)
    slots: list[int | None] = [None] * size
    answers: Answers = []
    arrived, last_end, refused, with_room = 0, 0, 0, 0
    for word in sequence.split(","):
        if word[0] == "-":
            slots = [None if owner == int(word[1:]) else owner for owner in slots]
            answers.append({"free": free_runs(slots)})
            continue
        wanted = int(word[1:])
        enough = [run for run in free_runs(slots) if run[1] - run[0] >= wanted]
        if policy == "next":
            enough.sort(key=lambda run: (run[0] < last_end, run[0]))
        elif policy != "first":
            enough.sort(key=lambda run: (run[1] - run[0]) * (1 if policy == "best" else -1))
        address = enough[0][0] if enough else None
        refused, with_room = refused + (not enough), with_room + (not enough and slots.count(None) >= wanted)
        if address is not None:
            slots[address : address + wanted] = [arrived] * wanted
            last_end = address + wanted
        answers.append({"address": address, "free": free_runs(slots)})
        arrived += 1
    free = slots.count(None)
    largest = max((end - start for start, end in free_runs(slots)), default=0)
    answers.append({
        "used": size - free, "internal": 0, "free": free, "largest_free_run": largest,
        "external_index": 1 - largest / free if free else 0.0, "refused": refused, "refused_with_room": with_room,
    })  # fmt: skip
    return answers


def free_runs(slots: list[int | None]) -> list[list[int]]:
    runs, address = [], 0
    for owner, group in groupby(slots):
        end = address + len(list(group))
        if owner is None:
            runs.append([address, end])
        address = end
    return runs


def buddy(sequence: str, size: int) -> Answers:
    """The free list is one list of (size, start), in the order in which they came free."""
    free, start = [], 0
    for bit in reversed(range(size.bit_length())):
        if size >> bit & 1:
            free.append((1 << bit, start))
            start += 1 << bit
    held: dict[int, tuple[int, int, int]] = {}  # who -> size, start, tokens
    answers: Answers = []
    arrived, refused, with_room = 0, 0, 0

    def listed() -> list[list[int]]:
        return [[at, at + n] for n, at in sorted(free, key=lambda run: run[0])]

    for word in sequence.split(","):
        if word[0] == "-":
            n, at, _ = held.pop(int(word[1:]))
            while (n, at ^ n) in free:
                free.remove((n, at ^ n))
                n, at = 2 * n, min(at, at ^ n)
            free.append((n, at))
            answers.append({"free": listed()})
            continue
        tokens, wanted = int(word[1:]), 1
        while wanted < tokens:
            wanted *= 2
        sizes = sorted({n for n, _ in free if n >= wanted})
        address = None
        if sizes:
            n, address = [run for run in free if run[0] == sizes[0]][-1]
            free.remove((n, address))
            while n > wanted:
                n //= 2
                free.append((n, address + n))
            held[arrived] = (n, address, tokens)
        else:
            refused += 1
            with_room += sum(n for n, _ in free) >= tokens
        answers.append({"address": address, "free": listed()})
        arrived += 1
    total, largest = sum(n for n, _ in free), max((n for n, _ in free), default=0)
    used = sum(tokens for _, _, tokens in held.values())
    answers.append({
        "used": used, "internal": sum(n - tokens for n, _, tokens in held.values()), "free": total,
        "largest_free_run": largest, "external_index": 1 - largest / total if total else 0.0,
        "refused": refused, "refused_with_room": with_room,
    })  # fmt: skip
    return answers


def paging(sequence: str, num_blocks: int, block_size: int, lookups: list[tuple[int, int]], **_: object) -> Answers:
    """`lookups`: (sequence, position), which a question names."""
    free, tables, tokens = [*range(num_blocks)][::-1], {}, {}
    answers: Answers = []
    arrived = 0
    for word in sequence.split(","):
        if word[0] == "-":
            free += tables.pop(int(word[1:]))
            del tokens[int(word[1:])]
            answers.append({"free": free[:]})
            continue
        who, more = word.split("+")
        owner = int(who) if who else arrived
        arrived += not who
        wanted, table = tokens.get(owner, 0) + int(more), tables.get(owner, [])
        count = 0
        while (len(table) + count) * block_size < wanted:
            count += 1
        if count > len(free):
            answers.append({"table": None, "free": free[:]})
            continue
        cut = len(free) - count
        tables[owner], free, tokens[owner] = table + free[cut:], free[:cut], wanted
        answers.append({"table": tables[owner], "free": free[:]})
    pool = {block * block_size + place: (block, place) for block in range(num_blocks) for place in range(block_size)}
    for owner, position in lookups:
        slots = [slot for block in tables[owner] for slot, (b, _) in pool.items() if b == block]
        block, offset = pool[slots[position]]
        entry = tables[owner].index(block)
        answers.append({"entry": entry, "block": block, "offset": offset, "slot": slots[position]})
    used, blocks = sum(tokens.values()), sum(map(len, tables.values()))
    answers.append({
        "used": used, "internal": blocks * block_size - used, "free_blocks": len(free),
        "largest_request": len(free) * block_size,
    })  # fmt: skip
    return answers


class Block:
    """A block by identity: its text up to its end (None: no hash), how many hold it, and when it got its hash."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.held, self.born = 0, 0


def prefix(sequence: str, num_blocks: int, block_size: int, **_: object) -> Answers:
    blocks = [Block() for _ in range(num_blocks - 1)]
    free, tables = blocks[:], {}
    answers: Answers = []
    arrived, clock, hits, asked = 0, 0, 0, 0

    def copies(text: str | None) -> list[Block]:
        return sorted((b for b in blocks if b.text == text is not None), key=lambda b: b.born)

    def names(some: list[Block]) -> list[str]:
        return ["-" if b.text is None else b.text + "'" * copies(b.text).index(b) for b in some]

    for word in sequence.split(","):
        if word[0] == "-":
            for block in reversed(tables.pop(int(word[1:]))):
                block.held -= 1
                if not block.held:
                    free.insert(0 if block.text is None else len(free), block)
            answers.append({"free": names(free)})
            continue
        form = re.fullmatch(r"\+(?:(.):)?([A-Z]*)(\d*)", word)
        assert form is not None
        lead, letters, tail = f"{form[1]}:" if form[1] else "", form[2], int(form[3] or 0)
        texts = [lead + letters[: k + 1] for k in range(len(letters))]
        tokens = len(letters) * block_size + tail
        found: list[Block] = []
        for k, text in enumerate(texts):
            if (k + 1) * block_size > tokens - 1 or not copies(text):
                break
            found.append(copies(text)[0])
        rest = [block for block in free if block not in found]
        new = len(texts) + bool(tail) - len(found)
        if new > len(rest):
            answers.append({"hit_tokens": len(found) * block_size, "table": None, "free": names(free)})
            arrived += 1
            continue
        fresh, free = rest[:new], rest[new:]
        for block in fresh:
            block.text = None
        for block, text in zip(fresh, texts[len(found) :], strict=False):
            clock += 1
            block.text, block.born = text, clock
        tables[arrived] = found + fresh
        for block in tables[arrived]:
            block.held += 1
        hits, asked = hits + len(found) * block_size, asked + tokens
        answers.append({
            "hit_tokens": len(found) * block_size, "table": names(tables[arrived]), "free": names(free),
        })  # fmt: skip
        arrived += 1
    shared = {names([block])[0]: block.held for block in blocks if block.text is not None and block.held > 1}
    answers.append({"shared": shared, "hit_share": hits / asked if asked else 0.0})
    return answers


def preemption(
    sequence: str, num_blocks: int, block_size: int, token_budget: int, max_num_seqs: int, victim: str, **_: object
) -> Answers:
    """A dictionary for each request, and the rules of the page from top to bottom."""
    requests = []
    for name, word in enumerate(sequence.split(",")):
        length, _, step = word.partition("@")
        prompt, output = map(int, length.split(":"))
        requests.append({"name": name, "known": prompt, "last": prompt + output, "done": 0, "blocks": 0, "seen": 0,
                         "step": int(step or 0)})  # fmt: skip
    coming, waiting, running = requests[:], [], []
    free, peak, again, computed, busy, step = num_blocks - 1, 0, 0, 0, 0, 0
    put_back, finished = [], {}
    while len(finished) < len(requests):
        while coming and coming[0]["step"] <= step:
            waiting.append(coming.pop(0))
        budget, gone, got = token_budget, [], {}
        for request in running[:]:
            if request not in running or budget <= 0:
                continue
            tokens = min(request["known"] - request["done"], budget)
            need = -(-(request["done"] + tokens) // block_size) - request["blocks"]
            while need > free and request in running:
                size = {
                    "last": lambda r: 0,
                    "longest": lambda r: -r["known"],
                    "shortest": lambda r: r["known"],
                    "fewest-blocks": lambda r: r["blocks"],
                }[victim]
                out = min(reversed(running), key=size)
                running.remove(out)
                budget += got.pop(out["name"], 0)
                free, out["blocks"] = free + out["blocks"], 0
                out["seen"], out["done"] = max(out["seen"], out["done"]), 0
                waiting.insert(0, out)
                gone.append(out["name"])
            if request not in running:
                break
            free, request["blocks"] = free - need, request["blocks"] + need
            got[request["name"]] = tokens
            budget -= tokens
        while not gone and waiting and budget and len(running) < max_num_seqs:
            request = waiting[0]
            if -(-request["known"] // block_size) > free:
                break
            tokens = min(request["known"], budget)
            free, request["blocks"] = free - -(-tokens // block_size), -(-tokens // block_size)
            got[request["name"]] = tokens
            running.append(waiting.pop(0))
            budget -= tokens
        put_back += [[step, name] for name in gone]
        busy += bool(running or waiting)
        peak = max(peak, num_blocks - 1 - free)
        for request in running[:]:
            tokens = got.get(request["name"], 0)
            again += max(0, min(request["done"] + tokens, request["seen"]) - request["done"])
            computed, request["done"] = computed + tokens, request["done"] + tokens
            if tokens and request["done"] == request["known"]:
                request["known"] += 1
                if request["known"] == request["last"]:
                    finished[f"r{request['name']}"] = step
                    running.remove(request)
                    free += request["blocks"]
        step += 1
    return [
        {"preemptions": put_back, "peak_blocks_used": peak},
        {f"r{name}": finished[f"r{name}"] for name in range(len(requests))},
        {"recomputed_tokens": again, "scheduled_tokens": computed, "steps": busy},
    ]


class Layer:
    """One layer's cache as an array whose every byte holds its own address."""

    def __init__(
        self, table: list[int], block_size: int, kv_heads: int, head_dim: int, item_bytes: int, **_: object
    ) -> None:
        shape = (max(table) + 1, 2, block_size, kv_heads, head_dim * item_bytes)
        self.table, self.address = table, np.arange(np.prod(shape)).reshape(shape)

    def read(self, position: int, kv_head: int, which: int) -> list[int]:
        """[first byte, end) of K (0) or V (1)."""
        block_size = self.address.shape[2]
        row = self.address[self.table[position // block_size], which, position % block_size, kv_head]
        return [int(row[0]), int(row[-1]) + 1]

    def stride(self, axis: int) -> int:
        return int(np.diff(self.address, axis=axis).flat[0]) if self.address.shape[axis] > 1 else 0
