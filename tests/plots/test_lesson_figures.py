"""What the lessons show beside the figures of a result: frames, strips of a pool, tables."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from pagesim.sim.allocators import Buddy, ExactFit, Paged, Pool
from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.figures import laid_out
from pagesim.sim.frames import framed
from pagesim.sim.notebook import table
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.strips import MOST_PIECES, pieces, strips

POOL = Pool(64, 64, 4)


def line(*values: float) -> go.Figure:
    return go.Figure().add_scatter(x=list(range(len(values))), y=values)


def test_each_figure_is_a_frame_and_a_stop_of_the_slider() -> None:
    figure = framed({"low": line(1, 2), "high": line(10, 40)}, "load")
    assert [frame.name for frame in figure.frames] == ["low", "high"]
    (slider,) = figure.layout.sliders
    assert [step.label for step in slider.steps] == ["low", "high"]
    assert slider.currentvalue.prefix == "load: "
    assert list(figure.frames[1].data[0].y) == [10, 40] and list(figure.data[0].y) == [1, 2]


def test_the_slider_stands_below_every_line_of_the_legend() -> None:
    """A phone gives each entry a line of its own, which is what `laid_out` leaves room for."""
    alone = laid_out(line(1, 2), 200, 4)
    framed_one = framed({"low": alone, "high": laid_out(line(3, 4), 200, 4)}, "load")
    (slider,) = framed_one.layout.sliders
    assert slider.pad.t > alone.layout.margin.b
    assert framed_one.layout.height - alone.layout.height == framed_one.layout.margin.b - alone.layout.margin.b > 70


def test_axes_hold_all_frames_and_keep_a_range_of_their_own() -> None:
    figure = framed({"a": line(1, 2), "b": line(10, 40)}, "load")
    low, high = figure.layout.yaxis.range
    assert low == 0 and 40 < high < 50
    fixed = {name: line(*values).update_yaxes(range=[0, 7]) for name, values in (("a", (1, 2)), ("b", (3, 90)))}
    assert tuple(framed(fixed, "load").layout.yaxis.range) == (0, 7)


def test_a_logarithmic_axis_is_in_powers_of_ten() -> None:
    figures = {name: line(*values).update_yaxes(type="log") for name, values in (("a", (1, 10)), ("b", (100, 1000)))}
    low, high = framed(figures, "x").layout.yaxis.range
    assert -0.5 < low < 0 and 3 < high < 3.5


def test_a_curve_that_one_figure_lacks_is_empty_there() -> None:
    both = line(1, 2).add_scatter(x=[0, 1], y=[5, 6], name="second")
    figure = framed({"one": line(1, 2), "both": both}, "load")
    assert [list(trace.y) for trace in figure.frames[0].data] == [[1, 2], []]
    assert [list(trace.y) for trace in figure.frames[1].data] == [[1, 2], [5, 6]]
    assert [list(trace.y) for trace in figure.data] == [[1, 2], []]
    assert list(both.data[1].y) == [5, 6]


@pytest.mark.parametrize("figures", [{}, {"a": line(1), "b": go.Figure().add_bar(x=[1], y=[1])}])
def test_figures_of_unlike_curves_are_refused(figures: dict[str, go.Figure]) -> None:
    with pytest.raises(UsageError, match="the curves of all"):
        framed(figures, "load")


def test_pieces_tile_the_pool_and_tokens_fill_an_owners_slots_in_order() -> None:
    paged, buddy, fit = Paged(POOL), Buddy(POOL), ExactFit(POOL)
    paged.place(0, 6)
    buddy.place(0, 6, 10)
    fit.place(0, 6, 6)
    for each in (paged, buddy, fit):
        found = sorted(pieces(each), key=lambda piece: piece.start)
        end = 0
        for piece in found:
            assert piece.start == end
            end += piece.tokens
        assert end == 64
        assert sum(piece.tokens for piece in found if piece.kind == "filled") == 6
    assert sorted((p.kind, p.start, p.tokens) for p in pieces(buddy) if p.owner == 0) == [
        ("empty", 6, 10),
        ("filled", 0, 6),
    ]
    (second,) = (p for p in pieces(paged) if p.kind == "empty")
    assert second.start == 4 * paged.block_tables[0][1] + 2 and second.tokens == 2


def test_a_strip_shows_every_slot_of_every_allocator() -> None:
    figure = strips({"one": Paged(POOL), "two": ExactFit(POOL)})
    for name in ("one", "two"):
        shown = sum(x for bar in figure.data for x, y in zip(bar.x, bar.y, strict=True) if y == name)
        assert shown == 64


def test_too_many_pieces_are_refused() -> None:
    with pytest.raises(UsageError, match="pieces to draw"):
        strips({"pool": Paged(Pool(4 * MOST_PIECES + 4, 64, 4))})


def test_a_table_has_a_column_for_each_allocator_and_escapes_what_it_shows() -> None:
    config = RunConfig(load="1.2", num_runs=1, allocators=("reservation", "paged"), pool=PoolConfig(tokens=8192),
                       workload=WorkloadConfig(num_requests=100))  # fmt: skip
    shown = table(RunResult.of(config, run(config)))
    assert list(shown.names) == ["reservation", "paged"]
    assert {len(row) for row in shown.rows} == {3}
    assert "refused, of requests" in repr(shown) and shown.sentences[0] in repr(shown)
    assert shown._repr_html_().count("<tr>") == 1 + len(shown.rows)
    assert "<script>" not in type(shown)(["<script>"], [["a", "b"]], [])._repr_html_()


def test_a_table_of_serving_opens_with_its_warning() -> None:
    config = RunConfig(load="0.5", num_runs=1, allocators=("paged",), on_full="queue", pool=PoolConfig(tokens=8192),
                       workload=WorkloadConfig(num_requests=20, lengths="uniform:50:200"), max_model_len=128,
                       queue=QueueConfig(rules=ServingConfig(num_blocks=512, max_model_len=128)))  # fmt: skip
    shown = table(ServingResult.of(config, serve_all(config)))
    assert "can never be served" in shown.sentences[0]
