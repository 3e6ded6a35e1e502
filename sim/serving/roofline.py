"""Step times from a card's data sheet and a model's shape: what no kernel can beat, plus the launches.

    launches + max(weights / bandwidth, 2 * parameters * tokens / flops)
             + prefill pairs * arithmetic of a pair + decode contexts * max(K and V / bandwidth, arithmetic of a pair)

Counted: the weights are streamed once a step; every linear layer costs two operations for each parameter and token; a
decode reads the keys and values of its whole context; a pair costs 2 * query heads * (key + value numbers of a head) in
each layer. Left out: reading keys and values in prefill, windows, activations, experts that a token does not visit
(their weights and arithmetic are counted), sampling, several cards, and that kernels reach less than the data sheet.
Williams, Waterman, Patterson, Roofline, CACM 52 (2009).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagesim.sim.catalog.devices import Device
from pagesim.sim.catalog.modelconfig import Model
from pagesim.sim.errors import GeometryError, UsageError
from pagesim.sim.geometry import cache_geometry

LAUNCHES_PER_LAYER = 10  # kernels: two norms, four projections, rotation, cache write, attention, activation
LAUNCH_S = 5e-6  # assumed, not measured; the order of magnitude of a launch without a captured graph


@dataclass(frozen=True, slots=True)
class RooflineStep:
    """A StepTime. `weights_bytes` to `kv_bytes_per_token` of the model, the rest of the card; `launches_s` a step."""

    weights_bytes: int
    parameters: int
    flops_per_pair: int
    kv_bytes_per_token: int
    bandwidth_bytes_per_s: float
    flops_per_s: float
    launches_s: float

    @classmethod
    def of(cls, device: Device, model: Model, launches_s: float | None = None) -> RooflineStep:
        """`launches_s` None: LAUNCHES_PER_LAYER * LAUNCH_S for each layer. Raises GeometryError, UsageError."""
        if model.parameters is None and model.weights_bytes is None:
            raise GeometryError(f"{model.source}: its parameters are not known; accepted: a built-in model")
        width = model.number_bytes()
        parameters = model.parameters or (model.weights_bytes or 0) // width
        if launches_s is None:
            launches_s = len(model.layers) * LAUNCHES_PER_LAYER * LAUNCH_S
        if not 0 <= launches_s < float("inf"):
            raise UsageError(f"launches {launches_s:g} s; accepted: 0 or more")
        pair = sum(2 * model.query_heads * layer.numbers_per_head for layer in model.layers if layer is not None)
        return cls(
            model.weights_bytes or parameters * width,
            parameters,
            pair,
            cache_geometry(model.layers, width).bytes_per_token,
            device.bandwidth_bytes_per_s,
            device.fp16_tensor_flops,
            launches_s,
        )

    def slower(self, times: float) -> RooflineStep:
        """The same on a machine that takes so many times as long for everything. Raises UsageError unless > 0."""
        if not 0 < times < float("inf"):
            raise UsageError(f"roofline {times:g} times slower; accepted: more than 0")
        return replace(
            self,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s / times,
            flops_per_s=self.flops_per_s / times,
            launches_s=self.launches_s * times,
        )

    @property
    def context_s(self) -> float:
        """What a decode pays for each token of its context: reading it, or computing on it, whichever is longer."""
        return max(self.kv_bytes_per_token / self.bandwidth_bytes_per_s, self.flops_per_pair / self.flops_per_s)

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """The form above."""
        linear = max(self.weights_bytes / self.bandwidth_bytes_per_s, 2 * self.parameters * tokens / self.flops_per_s)
        attention = prefill_pairs * self.flops_per_pair / self.flops_per_s + decode_contexts * self.context_s
        return self.launches_s + linear + attention

    def growth_s(self, sequences: int) -> float:
        """Every context grows by one."""
        return sequences * self.context_s
