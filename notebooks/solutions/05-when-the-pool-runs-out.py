# %% [markdown]
"""
# Lesson 5: when the pool runs out

**You will be able to**

1. say what preemption by recomputation does, and compare it with thrashing in an operating system;
2. find the knee of a server: the load past which waiting grows and throughput does not;
3. decide, with numbers, when swapping to the host would beat recomputing.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 10 | how a pool runs out while everybody is admitted (exercise 5a) |
| 15 | the note's starved pool: what 184 preemptions cost |
| 10 | the knee (exercise 5b) |
| 10 | recompute or swap? (exercises 5c, 5d) |
| 5 | what to take home |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

With pencil and paper: `pagesim quiz --topic preemption --seed 3`, and `-c` for the working. The rules are vLLM 0.29's; the
scheduler here agrees with recordings of it step by step.
"""

# %%
from dataclasses import replace

from IPython.display import display
from ipywidgets import interact

from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.experiments.experiment import tokens_per_s
from pagesim.sim.experiments.profile import reference_profile
from pagesim.sim.experiments.starved import starved_run, unstarved_run
from pagesim.sim.experiments.thrash import thrash
from pagesim.sim.frames import framed
from pagesim.sim.gallery import draw
from pagesim.sim.notebook import table
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.serving.steptime import pairs

step_time = reference_profile().coefficients  # fitted to the note's Tesla T4
print(step_time)

# %% [markdown]
"""
## Nobody asked for more, and yet there is none left

Paging admits a request when its *prompt* fits. Then each running sequence makes one token a step, and takes a new block
whenever its last one is full. Nothing was promised, so nothing was kept back.

**Exercise 5a (2 points).** `lengths` are the tokens that the running sequences have in the cache, before a decode step that adds
one to each. How many blocks does the step ask the pool for?
"""


# %% exercise="5a"
def blocks_asked(lengths, block_size):
    """Blocks that one decode step takes, for sequences that hold `lengths` tokens in blocks of `block_size`."""
    ### BEGIN SOLUTION
    return sum(length % block_size == 0 for length in lengths)
    ### END SOLUTION


# %% test="5a" points=2
assert blocks_asked([15, 16, 17], 16) == 1
assert blocks_asked([32] * 200, 16) == 200
### BEGIN HIDDEN TESTS
from pagesim.sim.allocators import Paged, Pool

for size in (1, 4, 16):
    paged = Paged(Pool(10_000, 2048, size))
    lengths = list(range(1, 60))
    for owner, length in enumerate(lengths):
        paged.place(owner, length)
    before = paged.free_tokens
    for owner, length in enumerate(lengths):
        paged.grow(owner, length + 1)
    assert blocks_asked(lengths, size) * size == before - paged.free_tokens, size
### END HIDDEN TESTS

# %% [markdown]
"""
The second assertion is the bad moment: 200 sequences of the same age ask for 200 blocks in one step. There is no fault to take
and no disk to fetch from. The scheduler takes the sequence that was admitted last out of the batch, frees its blocks, forgets its
keys and values, and puts it at the front of the queue. When it comes back it computes all its tokens again: **preemption by
recomputation**.

## The note's experiment

Two hundred requests, prompts of 9 tokens, answers of 1,015; together 204,800 tokens. One pool holds 929,856, the other 77,312.

**Before you run it:** two and a half times too little memory. How many requests are lost? How much throughput?
"""

# %%
starved, roomy = starved_run(step_time), unstarved_run(step_time)
logs = {"starved": starved.serve(), "roomy": roomy.serve()}
for name, log in logs.items():
    print(
        f"{name:8} {(log.finish_s > 0).sum()} finish, {len(log.preemptions)} preemptions, {log.num_steps:,} steps, "
        f"{log.recomputed_tokens:,} tokens computed again, {tokens_per_s(log):,.0f} tokens/s"
    )
lost = 1 - tokens_per_s(logs["starved"]) / tokens_per_s(logs["roomy"])
print(f"throughput lost: {lost:.1%}")
assert len(logs["starved"].preemptions) == 184 and len(logs["roomy"].preemptions) == 0

# %% [markdown]
"""
None is lost, and about a quarter of the throughput. 184 is what vLLM's own scheduler does with these requests when it is driven
without a model; the note counted 189 on the card, where the exact moments of arrival differ. Where does the time go?
"""


# %%
def as_result(run, load=None):
    """A run as the tables and figures want it."""
    rules = run.config
    pool = PoolConfig(tokens=rules.num_blocks * rules.block_size, origin="this lesson")
    config = RunConfig(
        load=load, trace="this lesson", num_runs=1, allocators=("paged",), on_full="queue", pool=pool,
        queue=QueueConfig(rules=rules),
    )  # fmt: skip
    return ServingResult.of(config, serve_all(config, run.trace))


starved_result = as_result(starved)
again = starved_result.allocators["paged"]
print(
    f"steps are longer by {again.recomputing_s.mean:.1f} s in all, of {again.span_s.mean:.1f} s, for what is computed again;"
)
print(f"{again.running_mean.mean:.0f} run at once in the mean, where the roomy pool runs 200.")
draw(starved_result, "queue")

# %%
draw(starved_result, "preemptions")

# %% [markdown]
"""
Tokens come back at the speed of a prompt, many in one pass, while they were made one slow step at a time. Still, that is only a
part of what was lost. Fewer sequences share each step, so more steps are needed, and every step has its fixed price: the weights
are read whoever takes part.
"""

# %%
roomy_s, starved_s = (float(logs[name].finish_s.max()) for name in ("roomy", "starved"))
more_steps_s = (logs["starved"].num_steps - logs["roomy"].num_steps) * step_time.base_s
print(f"lost in all          {starved_s - roomy_s:5.1f} s")
print(f"  computed again     {again.recomputing_s.mean:5.1f} s")
print(f"  more steps         {more_steps_s:5.1f} s")
assert abs(starved_s - roomy_s - again.recomputing_s.mean - more_steps_s) < 0.2

# %% [markdown]
"""
Half and half.

### Thrashing

An operating system thrashes when processes take each other's pages away faster than they use them. Here is a pool of 129 blocks
for the same 200 requests: room for two full sequences.
"""

# %%
for name, run in thrash(step_time).runs.items():
    log = run.serve()
    print(
        f"{name:24} {(log.finish_s > 0).sum():3} of {len(run.trace)} finish, {len(log.preemptions):5,} preemptions, "
        f"{log.recomputed_tokens:8,} of {log.totals()['scheduled_tokens']:8,} tokens computed again, "
        f"{tokens_per_s(log):5,.0f} tokens/s"
    )
    assert (log.finish_s > 0).all()

# %% [markdown]
"""
Slow, but it never stands still: the head of the running list is never taken out, so it always ends, and then there is room for
the next. (The other two rows: sixteen prompts nearly as long as the pool, admitted only if the *whole* prompt fits, which is the
default, or as soon as the *first chunk* does. Which preempts?)

## The knee

Now requests of mixed lengths come at random, at a rate that is a multiple of what a batch that is always full would finish. The
pool is small, 1,208 usable blocks.

**Before you run it:** draw throughput and the time to the first token over the load, from 0.5 to 2.
"""


# %%
def at_load(load, requests=2000, **rules):
    """Paging behind the queue at one load."""
    config = RunConfig(
        load=str(load), num_runs=1, allocators=("paged",), on_full="queue", pool=PoolConfig(tokens=1209 * 16),
        workload=WorkloadConfig(num_requests=requests),
        queue=QueueConfig(rules=ServingConfig(num_blocks=1209, **rules)),
    )  # fmt: skip
    return ServingResult.of(config, serve_all(config))


loads = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
results = {load: at_load(load) for load in loads}
points = []
print("load  offered/s  finished/s  tokens/s  TTFT p50, s  preempted  computed again")
for load, result in results.items():
    a, offered = result.allocators["paged"], result.trace.rate_per_s
    points.append((load, offered, a.requests_per_s.mean))
    print(f"{load:4}  {offered:9.2f}  {a.requests_per_s.mean:10.2f}  {a.output_tokens_per_s.mean:8,.0f}  "
          f"{a.ttft_s.p50.mean:11.2f}  {a.preemptions:9,}  {a.recomputed_tokens:14,}")  # fmt: skip

# %%
framed({f"{load:g}": draw(result, "queue") for load, result in results.items()}, "load")

# %%
framed({f"{load:g}": draw(result, "account") for load, result in results.items()}, "load")

# %% [markdown]
"""
Below the knee the queue is empty and load decides the throughput; above it the pool decides, and load decides only how long
people wait. Preemptions appear just there. (`finished/s` is over all the time until the last answer, a while after the last
arrival; so it is a little less than `offered/s` at any load.)

**Exercise 5b (3 points).** Find it. `points` are rows of `(load, offered_per_s, finished_per_s)` in order of load. The knee is
the last load before the first at which less than `share` of what is offered is finished; None if that is so from the start.
"""


# %% exercise="5b"
def knee(points, share):
    """The last load that is still kept up with."""
    ### BEGIN SOLUTION
    last = None
    for load, offered, finished in points:
        if finished < share * offered:
            break
        last = load
    return last
    ### END SOLUTION


# %% test="5b" points=3
assert knee([(1, 10, 10), (2, 20, 19), (3, 30, 20)], share=0.9) == 2
### BEGIN HIDDEN TESTS
assert knee([(1, 10, 2)], share=0.9) is None
assert knee([(1, 10, 10), (2, 20, 10), (3, 30, 30)], share=0.9) == 1
assert knee([(1, 10, 10), (2, 20, 20)], share=0.9) == 2
assert 0.5 <= knee(points, share=0.9) < 2.0
### END HIDDEN TESTS

# %%
print("the knee, if 90% of what is offered must be finished:", knee(points, 0.9))

# %% [markdown]
"""
## Recompute, or swap?

An operating system would write the victim's pages out and read them back. vLLM 0.29 does not do that; in pagesim it is a
**what-if**: blocks go to the host's memory over a link, and come back. What would it be worth?

**Exercise 5c (3 points).** The price of one return. Recomputing: the time that `tokens` more tokens, as a prompt with nothing
before it, add to a step: `step_time.per_token_s` for each, and `step_time.per_pair_s` for each pair of query and key, of which a
prompt of n tokens has n(n + 1)/2. Swapping: all blocks that hold `tokens`, out and in, at `bandwidth` bytes a second.
"""


# %% exercise="5c"
def recompute_s(tokens, step_time):
    """Seconds that computing `tokens` again adds to a step."""
    ### BEGIN SOLUTION
    return step_time.per_token_s * tokens + step_time.per_pair_s * (tokens * (tokens + 1) // 2)
    ### END SOLUTION


def swap_s(tokens, block_size, bytes_per_token, bandwidth):
    """Seconds on the link: every block out and in again, whole."""
    ### BEGIN SOLUTION
    blocks = -(-tokens // block_size)
    return 2 * blocks * block_size * bytes_per_token / bandwidth
    ### END SOLUTION


# %% test="5c" points=3
assert abs(swap_s(16, 16, 1000, 32_000) - 1.0) < 1e-12
### BEGIN HIDDEN TESTS
for tokens in (1, 100, 1000, 2048):
    expected = step_time.seconds(tokens, pairs(0, tokens), 0, 0) - step_time.base_s
    assert abs(recompute_s(tokens, step_time) - expected) < 1e-9, tokens
assert swap_s(17, 16, 12_288, 12e9) == 2 * swap_s(16, 16, 12_288, 12e9)
### END HIDDEN TESTS

# %%
for tokens in (64, 512, 1024, 2048):
    print(f"{tokens:5} tokens: recompute {1e3 * recompute_s(tokens, step_time):6.1f} ms", end="")
    for bandwidth in (12e9, 1e9):
        print(f", swap at {bandwidth / 1e9:g} GB/s {1e3 * swap_s(tokens, 16, 12_288, bandwidth):6.1f} ms", end="")
    print()

# %% [markdown]
"""
**Exercise 5d (2 points).** From what bandwidth on, in bytes a second, is swapping `tokens` tokens quicker than recomputing them?
"""


# %% exercise="5d"
def break_even_bandwidth(tokens, step_time, block_size, bytes_per_token):
    """The bandwidth at which both take equally long."""
    ### BEGIN SOLUTION
    return swap_s(tokens, block_size, bytes_per_token, 1.0) / recompute_s(tokens, step_time)
    ### END SOLUTION


# %% test="5d" points=2
found = break_even_bandwidth(1024, step_time, 16, 12_288)
assert abs(swap_s(1024, 16, 12_288, found) - recompute_s(1024, step_time)) < 1e-9
### BEGIN HIDDEN TESTS
for tokens in (5, 333, 2000):
    found = break_even_bandwidth(tokens, step_time, 16, 12_288)
    assert (
        swap_s(tokens, 16, 12_288, 1.01 * found)
        < recompute_s(tokens, step_time)
        < swap_s(tokens, 16, 12_288, 0.99 * found)
    )
### END HIDDEN TESTS

# %% [markdown]
"""
So much for one return. The whole run, served both ways:
"""

# %%
swapping = {"preempt": "swap", "bytes_per_token": 12_288, "host_blocks": 20_000}
for name, changes in {
    "recompute": {},
    "swap, 12 GB/s": {**swapping, "host_bandwidth_bytes_per_s": 12e9},
    "swap, 1 GB/s": {**swapping, "host_bandwidth_bytes_per_s": 1e9},
}.items():
    log = replace(starved, config=replace(starved.config, **changes)).serve()
    print(f"{name:14} {tokens_per_s(log):6,.0f} tokens/s, {len(log.preemptions)} preempted, "
          f"{log.recomputed_tokens:7,} tokens computed again")  # fmt: skip
print(f"{'room for all':14} {tokens_per_s(logs['roomy']):6,.0f} tokens/s")

# %% [markdown]
"""
Compare with the account above. Swapping wins back the half that was recomputing, or nearly. Neither way makes memory: what both
leave is the smaller batch, and the steps that it takes more.

Turn it yourself: who should be taken out, and how many may run at once?
"""


# %%
@interact(load=(0.6, 2.0, 0.2), victim=["last", "longest", "shortest", "fewest-blocks"], max_num_seqs=[16, 32, 64, 256])
def shown(load=1.4, victim="last", max_num_seqs=256):
    """The table under other rules."""
    display(table(at_load(load, 400, victim=victim, max_num_seqs=max_num_seqs)))


# %% [markdown]
"""
## To take home

- Paging turns a refusal into a delay: what does not fit waits, or is put back and computed again.
- Past the knee more load buys waiting and nothing else.
- A starved pool pays twice: for what is computed again, and for a smaller batch. Swapping saves the first alone.

**For the next lesson:** a preempted sequence asks for tokens that the pool held a moment ago. Could it find them?
"""
