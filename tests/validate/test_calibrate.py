"""The fit of `pagesim calibrate`: it finds what made the times, from a CSV and from an engine on a made-up clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import UsageError
from pagesim.sim.serving.steptime import Knot, LinearStep
from pagesim.validate.calibrate import shape as shape_module
from pagesim.validate.calibrate.calibration import calibrate
from pagesim.validate.calibrate.fit import fit_step_time, residuals
from pagesim.validate.calibrate.rows_csv import read_rows, write_rows
from pagesim.validate.calibrate.shape import BatchTime, Chunk, Shape
from pagesim.validate.calibrate.source import from_file

TRUE = LinearStep(4e-4, 1.3e-5, 2e-8, 2.9e-5, 2.5e-7, 3e-4)
CURVED = replace(TRUE, curve=(Knot(2, 3e-4), Knot(8, 3.5e-4), Knot(32, 8e-4), Knot(128, 9e-4), Knot(512, 6e-3)))


def by_hand(decodes: list[int], chunks: list[tuple[int, int]]) -> float:
    """Token by token, each with the keys it attends to: no formula for pairs."""
    seconds = TRUE.base_s + TRUE.per_sequence_s * (len(decodes) + len(chunks))
    for context in decodes:
        seconds += TRUE.per_token_s + (TRUE.per_context_s or 0) * context
    seconds += (TRUE.prefill_s or 0) if chunks else 0
    for tokens, behind in chunks:
        for place in range(tokens):
            seconds += TRUE.per_token_s + TRUE.per_pair_s * (behind + place + 1)
    return seconds


def drawn_batches(count: int = 120) -> list[tuple[list[int], list[tuple[int, int]]]]:
    draw = np.random.default_rng(1)
    batches = []
    for number in range(count):
        decodes = draw.integers(1, 900, number % 9).tolist()
        chunks = [(int(draw.integers(1, 400)), int(draw.integers(0, 500))) for _ in range(number % 3)]
        batches.append((decodes, chunks) if decodes or chunks else ([7 + number], []))
    return batches


def made_csv(path: Path, factor: Callable[[int, str], float] = lambda number, held_out: 1.0) -> Path:
    lines = ["decodes,contexts,prefills,seconds,held_out"]
    for number, (decodes, chunks) in enumerate(drawn_batches()):
        held_out = "yes" if number % 4 == 0 else "no"
        seconds = by_hand(decodes, chunks) * factor(number, held_out)
        prefills = " ".join(f"{tokens}@{behind}" for tokens, behind in chunks)
        lines.append(f"{len(decodes)},{sum(decodes)},{prefills},{seconds!r},{held_out}")
    path.write_text("\n".join(lines) + "\n")
    return path


def recovered(path: Path) -> LinearStep:
    return calibrate(read_rows(path), "a test", path.name).step_time


def prices(step_time: LinearStep) -> tuple[float, ...]:
    """All but the curve."""
    return astuple(step_time)[:-1]


def test_planted_coefficients_are_recovered(tmp_path: Path) -> None:
    found = recovered(made_csv(tmp_path / "rows.csv"))
    assert prices(found) == pytest.approx(prices(TRUE), rel=1e-6)
    assert found.curve and all(knot.seconds == pytest.approx(knot.tokens * TRUE.per_token_s) for knot in found.curve)


def rows_of(step_time: LinearStep, tokens: Sequence[int]) -> list[BatchTime]:
    """Decodes, a prefill, and both, of so many tokens in all."""
    shapes = [Shape(each, 50 * each + 7 * (each % 5)) for each in tokens]
    shapes += [Shape(0, 0, (Chunk(each, 3 * (each % 4)),)) for each in tokens]
    shapes += [Shape(each - 1, 90 * each, (Chunk(1, 200),)) for each in tokens if each > 1]
    return [BatchTime(shape, shape.seconds(step_time), str(shape), False) for shape in shapes]


def test_a_planted_curve_is_recovered() -> None:
    found = fit_step_time(
        rows_of(CURVED, [1, 1, 1, 2, 3, 5, 8, 13, 21, 32, 60, 100, 128, 200, 400, 512, 600, 900, 1300])
    )
    assert prices(found) == pytest.approx(prices(CURVED), rel=1e-6)
    assert found.curve is not None and [knot.tokens for knot in found.curve] == [2, 8, 32, 128, 512]
    assert [knot.seconds for knot in found.curve] == pytest.approx([knot.seconds for knot in CURVED.curve or ()])


@pytest.mark.parametrize(
    ("tokens", "knots"),
    [
        ([1, 1, 1, 2, 3, 5, 6, 7, 10, 12], [2, 8]),
        ([1, 1, 1, 2, 3, 5, 6, 7, 9, 9, 9, 9, 9, 9], [2]),
        ([1, 1, 1, 8, 8, 8, 12, 12], [2]),
        ([1, 1, 1, 20, 40, 60, 80], [2]),
        ([40, 50, 60, 70, 90], []),
    ],
)
def test_the_curve_goes_as_far_as_the_rows(tokens: list[int], knots: list[int]) -> None:
    rows = rows_of(CURVED, tokens)
    assert [knot.tokens for knot in fit_step_time(rows).curve or ()] == knots


def test_where_rows_tell_prices_and_no_curve_there_is_none() -> None:
    """Enough rows beside the knots at 2 and 8, but of three sizes: they tell a straight line, and not a price each."""
    found = fit_step_time(rows_of(TRUE, [1, 1, 1, 5, 5, 10, 10]))
    assert found.curve is None
    assert prices(found) == pytest.approx(prices(TRUE), rel=1e-6)


def test_steps_cut_just_behind_a_knot_do_not_make_the_price_of_longer_ones() -> None:
    """A token budget of 130: two tokens behind the knot of 128, of which noise would make any slope."""
    draw = np.random.default_rng(4)
    rows = rows_of(TRUE, [1, 1, 1, 2, 3, 5, 8, 13, 21, 32, 40, 60, 80, 100, *[130] * 30])
    rows = [replace(row, seconds=row.seconds * float(draw.lognormal(0, 0.03))) for row in rows]
    assert fit_step_time(rows).per_token_s == pytest.approx(TRUE.per_token_s, rel=0.2)


def test_what_is_held_out_takes_no_part_in_the_fit_and_shows_its_noise(tmp_path: Path) -> None:
    noise = np.random.default_rng(2).normal(1, 0.1, 200)
    rows = made_csv(tmp_path / "rows.csv", lambda number, held_out: float(noise[number]) if held_out == "yes" else 1.0)
    found = calibrate(read_rows(rows), "a test", "rows")
    assert prices(found.step_time) == pytest.approx(prices(TRUE), rel=1e-6)
    assert found.fitted.r2 == pytest.approx(1) and found.fitted.p90_error < 1e-6
    expected = np.abs(1 / noise[:120:4] - 1)
    assert found.held_out.rows == 30
    assert found.held_out.median_error == pytest.approx(np.median(expected), rel=1e-5)
    assert found.held_out.p90_error == pytest.approx(np.quantile(expected, 0.9), rel=1e-5)
    assert found.held_out.r2 is not None and 0.5 < found.held_out.r2 < 1


def test_fitted_times_add_up_to_the_measured_under_noise(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).lognormal(0, 0.3, 200)
    rows = read_rows(made_csv(tmp_path / "rows.csv", lambda number, held_out: float(noise[number])))
    fitting = [row for row in rows if not row.held_out]
    assert residuals(fitting, fit_step_time(fitting)).total == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda behind, tokens: tokens * behind + tokens * tokens,
        lambda behind, tokens: tokens * behind + tokens * tokens // 2,
        lambda behind, tokens: tokens * (tokens + 1) // 2,
    ],
    ids=["square", "half a square", "nothing behind"],
)
def test_a_wrong_formula_for_pairs_is_found(
    wrong: Callable[[int, int], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_module, "pairs", wrong)
    assert prices(recovered(made_csv(tmp_path / "rows.csv"))) != pytest.approx(prices(TRUE), rel=1e-5)


def test_a_price_for_contexts_of_their_own_is_told_from_twice_a_pairs(tmp_path: Path) -> None:
    rows = read_rows(made_csv(tmp_path / "rows.csv"))
    found = calibrate(rows, "a test", "rows")
    assert found.one_price is not None and found.one_price.p90_error > 100 * found.held_out.p90_error
    same = [replace(row, seconds=row.shape.seconds(LinearStep(4e-4, 1.3e-5, 2e-8, 2.9e-5))) for row in rows]
    assert fit_step_time(same).per_context_s == pytest.approx(4e-8, rel=1e-6)
    one_price = calibrate(same, "a test", "rows").one_price
    assert one_price is not None and one_price.p90_error < 1e-6


def test_what_the_t4s_form_leaves_is_told_of_the_rows_that_are_held_out(tmp_path: Path) -> None:
    rows = read_rows(made_csv(tmp_path / "rows.csv"))
    others = [row for row in rows if row.held_out]
    form = fit_step_time([row for row in rows if not row.held_out], split=False)
    found = calibrate(rows, "a test", "rows")
    assert found.one_price is not None and found.one_price == residuals(others, form)
    assert found.one_price.rows == len(others) == 30


def test_a_fit_stands_where_the_t4s_form_has_none(tmp_path: Path) -> None:
    dear = LinearStep(1e-5, 1e-5, 2e-8, 2e-5, 1e-5, 3e-4)  # a context far above two pairs
    rows = [replace(row, seconds=row.shape.seconds(dear)) for row in read_rows(made_csv(tmp_path / "rows.csv"))]
    found = calibrate(rows, "a test", "rows")
    assert prices(found.step_time) == pytest.approx(prices(dear), rel=1e-6)
    assert found.one_price is None and found.as_json()["held_out_in_t4_form"] is None


def test_equal_times_have_no_r2_whatever_their_mean_is_rounded_to() -> None:
    rows = [replace(row, seconds=0.1) for row in rows_of(TRUE, [1, 2, 3, 4, 5, 6, 7])]
    assert residuals(rows, TRUE).r2 is None


def test_total_is_the_modelled_time_over_the_measured(tmp_path: Path) -> None:
    rows = read_rows(made_csv(tmp_path / "rows.csv", lambda number, held_out: 2.0 if held_out == "yes" else 1.0))
    found = calibrate(rows, "a test", "rows")
    assert found.held_out.total == pytest.approx(-0.5) and found.held_out.median_error == pytest.approx(0.5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_handful_of_rows_is_refused_in_a_line(count: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + "".join(f"1,{5 + k},,0.001\n" for k in range(count)))
    fitted = count - max(1, count // 4)
    rows = f"{fitted} row{'' if fitted == 1 else 's'}"
    with pytest.raises(UsageError, match=rf"rows\.csv: {rows} to fit on, which cannot tell"):
        from_file(path)


def test_the_largest_numbers_that_are_read_can_be_fitted(tmp_path: Path) -> None:
    path = made_csv(tmp_path / "rows.csv")
    text = path.read_text()
    path.write_text(f"{text}1,{'9' * 12},,1e-9,yes\n1,1,{'9' * 12}@{'9' * 12},1e9,yes\n")
    found = calibrate(read_rows(path), "a test", "rows")
    json.dumps(found.as_json(), allow_nan=False)
    path.write_text(f"{text}{'9' * 12},{'9' * 12},,1e9,no\n1,1,{'9' * 12}@{'9' * 12},1e9,no\n")
    with pytest.raises(UsageError, match=r"^92 rows to fit on, which leave nothing for a step by itself"):
        calibrate(read_rows(path), "a test", "rows")


def test_rows_without_a_group_are_repeats_and_a_quarter_of_the_shapes_is_held_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = ["seconds,decodes,contexts,prefills"]  # in any order
    for tokens in range(1, 9):
        lines += [f"{seconds},1,{tokens},{tokens}@0" for seconds in (0.1, 0.2, 9.0)]
    path.write_text("\n".join(lines))
    rows = read_rows(path)
    assert {row.seconds for row in rows} == {0.2}
    sides = {row.group: row.held_out for row in rows}
    assert len(rows) == 24 and len(sides) == 8 and sum(sides.values()) == 2
    assert read_rows(path) == rows


shapes = st.builds(
    lambda contexts, chunks: Shape(len(contexts), sum(contexts), tuple(chunks)),
    st.lists(st.integers(1, 5000), min_size=1, max_size=5),
    st.lists(st.builds(Chunk, st.integers(1, 2000), st.integers(0, 9000)), max_size=4),
)


@given(
    rows=st.lists(
        st.builds(BatchTime, shapes, st.floats(1e-9, 1e3), st.text("ab ,\"'\n", max_size=4), st.just(False)), min_size=1
    )
)
def test_written_rows_are_read_back(rows: list[BatchTime], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    write_rows(path, rows)
    assert read_rows(path) == rows


HEAD = "decodes,contexts,prefills,seconds\n"
BAD = {
    "empty": ("", "empty; accepted: decodes, contexts"),
    "no rows": (HEAD, "no rows"),
    "a column missing": ("decodes,contexts,seconds\n1,1,1\n", "line 1: no column prefills"),
    "a column too many": ("decodes,contexts,prefills,seconds,colour\n", "line 1: column 'colour'"),
    "a field missing": (HEAD + "1,5,,0.1\n1,5,0.1\n", "line 3: not as many fields"),
    "a field too many": (HEAD + "1,5,,0.1,0.1\n", "line 2: not as many fields"),
    "no whole number": (HEAD + "1.5,5,,0.1\n", "line 2: decodes is '1.5'; accepted: a whole number, 0 or more"),
    "a negative count": (HEAD + "1,-5,,0.1\n", "line 2: contexts is '-5'; accepted: a whole number"),
    "too few contexts": (HEAD + "5,4,,0.1\n", "line 2: contexts is '4'; accepted: at least one for each of the 5"),
    "contexts of nobody": (HEAD + "0,4,3@0,0.1\n", "line 2: contexts is '4'"),
    "a count left out": (
        HEAD + ",,3@0,0.1\n",
        "line 2: decodes is ''; accepted: a whole number, 0 or more (0 for none)",
    ),
    "no chunk": (HEAD + "0,0,3,0.1\n", "line 2: prefills is '3'; accepted: TOKENS@BEHIND like 256@0"),
    "an empty chunk": (HEAD + "0,0,0@7,0.1\n", "line 2: prefills is '0@7'"),
    "nothing to do": (HEAD + "0,0,,0.1\n", "line 2: prefills is ''; accepted: a chunk"),
    "no time": (HEAD + "1,5,,0\n", "line 2: seconds is '0'; accepted: a number above 0"),
    "an endless time": (HEAD + "1,5,,inf\n", "line 2: seconds is 'inf'"),
    "a time that no batch takes": (HEAD + "1,5,,1e308\n", "line 2: seconds is '1e308'; accepted: a number above 0"),
    "a time too small to measure": (HEAD + "1,5,,1e-308\n", "line 2: seconds is '1e-308'"),
    "a count of many digits": (HEAD + f"1,{'9' * 5000},,1\n", "line 2: contexts is '99999"),
    "a chunk of many digits": (HEAD + f"0,0,{'9' * 5000}@0,1\n", "line 2: prefills is '99999"),
    "a word for a time": (HEAD + "1,5,,slow\n", "line 2: seconds is 'slow'"),
    "a side that is none": (
        HEAD.replace("\n", ",held_out\n") + "1,5,,1,maybe\n",
        "line 2: held_out is 'maybe'; accepted: yes or no",
    ),
    "a group on both sides": (
        HEAD.replace("\n", ",group,held_out\n") + "1,5,,1,a,yes\n1,6,,1,a,no\n",
        "line 3: group 'a' is held out here and not",
    ),
    "an open quote": (HEAD + '1,5,"3@0,0.1\n', "not CSV in UTF-8"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named_with_its_line_and_field(kind: str, tmp_path: Path) -> None:
    text, told = BAD[kind]
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_rows(path)
    assert str(error.value).startswith(f"{path}") and told in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")
    (tmp_path / "rows.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not CSV in UTF-8"):
        read_rows(tmp_path / "rows.csv")


def test_rows_that_do_not_tell_the_work_apart_are_refused() -> None:
    decodes = [BatchTime(Shape(n, 10 * n), 1e-3 * n, str(n), n == 3) for n in range(1, 9)]
    with pytest.raises(UsageError, match=r"^7 rows to fit on, which cannot tell .*accepted: batches with and without"):
        calibrate(decodes, "a test", "rows")
    with pytest.raises(UsageError, match="none held out"):
        calibrate([replace(row, held_out=False) for row in decodes], "a test", "rows")


def engine_on(timer_clock: Any, **options: Any) -> tuple[Any, Any]:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    from pagesim.engine.config import EngineConfig
    from pagesim.engine.engine import Engine
    from pagesim.validate.calibrate.timing import Timer

    timer = Timer(lambda: timer_clock[0])

    def on_step(step: Any, finished: Any, t_s: float) -> None:
        timer.note(step, finished, t_s)
        timer_clock[0] += Shape.of(step).seconds(TRUE)

    return Engine(EngineConfig("random:tiny", num_blocks=65, max_model_len=256, **options), on_step=on_step), timer


@pytest.mark.parametrize("options", [{}, {"prefix_caching": True, "token_budget": 64}], ids=["plain", "cached, chunks"])
def test_an_engine_on_a_clock_that_charges_by_a_model_gives_that_model(options: Any, tmp_path: Path) -> None:
    from pagesim.validate.calibrate.source import from_engine, reach_of

    engine, timer = engine_on([0.0], **options)
    found, rows = from_engine(engine, timer, reach_of(engine, 2), repeats=2)
    assert prices(found.step_time) == pytest.approx(prices(TRUE), rel=1e-6)
    assert found.noise is not None and found.noise.steps_spread < 1e-6
    assert {group.held_out for group in found.groups} == {True, False}
    for group in found.groups:
        assert group.modelled_s == pytest.approx(group.measured_s)
    write_rows(tmp_path / "rows.csv", rows)
    assert recovered(tmp_path / "rows.csv") == found.step_time


def test_a_shape_is_what_the_replay_adds_up_for_itself() -> None:
    from pagesim.validate.replay.drive import seconds

    engine, timer = engine_on([0.0], token_budget=32)
    seen: list[tuple[float, float]] = []
    timer.note = lambda step, finished, t_s: seen.append((Shape.of(step).seconds(TRUE), seconds(step, TRUE)))
    engine.generate([[1] * size for size in (1, 2, 31, 64, 100)], _sampling(12))
    ours, theirs = zip(*seen, strict=True)
    assert len(seen) > 12 and ours == pytest.approx(theirs, rel=1e-12)


def test_the_typical_repeat_leaves_a_burst_out_and_keeps_what_every_repeat_has() -> None:
    from pagesim.validate.calibrate.timing import typical

    steady = np.full((5, 10), 1.0)
    burst = steady.copy()
    burst[2] *= 30
    assert typical(burst).tolist() == [1.0] * 10
    now_and_then = steady.copy()
    for repeat in range(5):
        now_and_then[repeat, repeat] += 2  # each repeat has one such step, at another place
    assert typical(now_and_then).sum() == pytest.approx(12)
    assert typical(np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])).tolist() == [2.0, 1.0]  # the median, not the least


def _sampling(max_tokens: int) -> Any:
    from pagesim.engine.sampling import SamplingParams

    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
