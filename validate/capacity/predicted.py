"""What `pagesim capacity` says of a model, in the simulator's own arithmetic, before anything has run.

The model is read by the simulator's reader of config.json, or from its list; the engine's reader is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pagesim.engine.config import EngineConfig
from pagesim.engine.models.checkpoint import find_model as find_checkpoint
from pagesim.engine.models.presets import PRESETS, RANDOM
from pagesim.sim.budget import CONTEXT_BYTES, BudgetOptions, MemoryBudget, Standing, Term, memory_budget
from pagesim.sim.capacity import BareCard, Capacity
from pagesim.sim.catalog.configfields import config_fields
from pagesim.sim.catalog.devices import Device, find_device
from pagesim.sim.catalog.modelconfig import DTYPE_BYTES, Model, model_of, read_model
from pagesim.sim.catalog.models import find_model, model_names
from pagesim.sim.errors import GeometryError
from pagesim.sim.geometry import CacheGeometry, cache_geometry
from pagesim.sim.pool import Engine, PoolGeometry
from pagesim.validate.capacity.seen import Started


def model_named(name: str) -> Model:
    """As the simulator knows it. Raises GeometryError, and EngineError where a checkpoint cannot be found."""
    if not name.startswith(RANDOM):
        return read_model(Path(name) if name.endswith(".json") else find_checkpoint(name))
    shape = name.removeprefix(RANDOM)
    if shape in model_names():
        return find_model(shape)
    return model_of(config_fields(PRESETS[shape], name), name) if shape in PRESETS else read_model(Path(shape))


@dataclass(frozen=True, slots=True)
class Predicted:
    """Of one model in one type of number. Windows are charged in full, as the engine charges them."""

    model: Model
    number_bytes: int

    @classmethod
    def of(cls, config: EngineConfig) -> Predicted:
        """What is asked of an engine. Raises GeometryError and EngineError."""
        model = model_named(config.model)
        dtype = model.dtype if config.dtype == "auto" else config.dtype
        if dtype not in DTYPE_BYTES:
            raise GeometryError(f"{config.model}: dtype {dtype} is not known; accepted: {', '.join(DTYPE_BYTES)}")
        return cls(model, DTYPE_BYTES[dtype])

    @property
    def cache(self) -> CacheGeometry:
        """Bytes of a sequence."""
        return cache_geometry(self.model.layers, self.number_bytes, windows=False)

    @property
    def weights_bytes(self) -> int | None:
        """From the number of parameters, where the list has it."""
        return None if self.model.parameters is None else self.model.parameters * self.number_bytes

    def num_blocks(self, config: EngineConfig, started: Started) -> int:
        """Blocks of the pool. What the engine must measure or copies, activations and a tied head, is as it says."""
        return Engine.VLLM.blocks_in(self._pool_bytes(config, started), config.block_size * self.cache.bytes_per_token)

    def capacity(self, config: EngineConfig, num_blocks: int, max_model_len: int) -> Capacity:
        """What a pool of so many blocks holds."""
        pool = PoolGeometry(num_blocks, config.block_size, self.cache.bytes_per_token)
        return Capacity(pool, self.cache, max_model_len)

    def bare_card(self, total_bytes: int, weights_bytes: int, max_model_len: int) -> int:
        """Reservations beside the weights alone, with a CUDA context as it is assumed."""
        reservation = self.cache.sequence_bytes(max_model_len)
        return BareCard(total_bytes, self.weights_bytes or weights_bytes, CONTEXT_BYTES, reservation).reservations

    def estimated_blocks(self, config: EngineConfig, card: str) -> int | None:
        """Blocks as `pagesim capacity --device` estimates them, which knows no engine; None: a card not in its list."""
        try:
            device: Device = find_device(card)
            budget = memory_budget(self.model, device, BudgetOptions(config.utilization), 1, 1)
        except GeometryError:
            return None
        return Engine.VLLM.blocks_in(budget.cache_bytes, config.block_size * self.cache.bytes_per_token)

    def _pool_bytes(self, config: EngineConfig, started: Started) -> int:
        if config.num_blocks is not None:
            return config.num_blocks * config.block_size * self.cache.bytes_per_token
        if config.kv_bytes is not None:
            return config.kv_bytes
        total, utilization = (config.memory, 1.0) if config.memory else (started.total_bytes, config.utilization)
        assert total is not None, "on a CPU the pool was told"
        terms = (
            Term("weights", self.weights_bytes or started.weights_bytes, Standing.ESTIMATED, "parameters"),
            Term("a packed copy of the tied head", started.copy_bytes, Standing.GIVEN, "the engine's"),
            Term("activations", started.activation_bytes, Standing.GIVEN, "the engine's"),
        )
        return MemoryBudget(Term("total", total, Standing.GIVEN, "as told"), utilization, terms).cache_bytes
