"""The adapters to libraries that are not here, against stand-ins that take what those document and compute in torch.

A stand-in has the documented parameters, in the documented order, and reads K and V as its documentation lays them out:
an adapter that passes something else fails to call it, or gets another answer than our own kernel.
"""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

from pagesim.kernels import bench_peers
from pagesim.kernels.bench_cases import Case, Heads
from pagesim.kernels.bench_inputs import make_inputs
from pagesim.kernels.cpu_decode import decode_attention_cpu

CPU = torch.device("cpu")


def attention(query, key, value, scale):
    """One sequence: [H, D] over [L, KV, D]."""
    group = query.shape[0] // key.shape[1]
    key, value = (x.repeat_interleave(group, 1).double() for x in (key, value))
    weights = (torch.einsum("hd,lhd->hl", query.double(), key) * scale).softmax(-1)
    return torch.einsum("hl,lhd->hd", weights, value).to(query.dtype)


class BatchDecodeWithPagedKVCacheWrapper:
    """FlashInfer's, as of 0.2 to 0.6: K and V of a page in one tensor, [pages, 2, page, KV, D], the layout NHD."""

    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False, use_tensor_cores=False) -> None:
        assert float_workspace_buffer.dtype == torch.uint8
        assert kv_layout == "NHD"
        self.use_tensor_cores = use_tensor_cores

    def plan(
        self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size,
        *, q_data_type, kv_data_type, sm_scale=None,
    ) -> None:  # fmt: skip
        assert {x.dtype for x in (indptr, indices, last_page_len)} == {torch.int32}
        assert len(indptr) == len(last_page_len) + 1
        assert int(indptr[-1]) == len(indices)
        if not self.use_tensor_cores and num_qo_heads // num_kv_heads not in (1, 2, 3, 4, 8):
            raise RuntimeError(f"Unsupported group_size: {num_qo_heads // num_kv_heads}")
        self.pages, self.tails, self.scale = torch.tensor_split(indices, indptr[1:-1].long()), last_page_len, sm_scale
        self.sizes, self.dtypes = (page_size, num_kv_heads, head_dim), (q_data_type, kv_data_type)

    def run(self, q, paged_kv_cache):
        assert paged_kv_cache.shape[1:] == (2, *self.sizes)
        assert self.dtypes == (q.dtype, paged_kv_cache.dtype)
        outputs = []
        for query, pages, tail in zip(q, self.pages, self.tails, strict=True):
            length = (len(pages) - 1) * self.sizes[0] + int(tail)
            key, value = (paged_kv_cache[pages.long(), half].flatten(0, 1)[:length] for half in (0, 1))
            outputs.append(attention(query, key, value, self.scale))
        return torch.stack(outputs)


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, *, softmax_scale=None
):
    """FlashAttention's, as of 2.7: q [S, 1, H, D], caches [S, L, KV, D] whose last dimension lies together."""
    assert k_cache.stride(-1) == v_cache.stride(-1) == 1
    assert cache_seqlens.dtype == torch.int32
    rows = zip(q[:, 0], k_cache, v_cache, cache_seqlens.tolist(), strict=True)
    return torch.stack([attention(query, key[:n], value[:n], softmax_scale) for query, key, value, n in rows])[:, None]


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, member in (
        ("flashinfer", BatchDecodeWithPagedKVCacheWrapper),
        ("flash_attn", flash_attn_with_kvcache),
    ):
        module = ModuleType(name)
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("heads", [(14, 2), (4, 4), (6, 3)])
@pytest.mark.parametrize("prepare", [bench_peers.flash_infer, bench_peers.flash_attention, bench_peers.torch_sdpa])
def test_a_competitor_is_given_our_problem(prepare, heads) -> None:
    inputs = make_inputs(Case(Heads(*heads, dtype="fp32"), 3, 40, 16), CPU, seed=0)
    ours = decode_attention_cpu(inputs.query, inputs.cache, inputs.sequences, inputs.options)
    assert torch.allclose(prepare(inputs)().reshape(ours.shape), ours, atol=1e-5)
