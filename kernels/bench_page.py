"""The bench as one HTML page of Plotly charts: bytes moved per second where timed, else the static account."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

Row = dict[str, Any]


def page(report: Row) -> str:
    """A whole HTML document, plotly.js included: it opens without a network. `report`: as the bench gives it."""
    figures = _measured(report) if report["measured"] else _static(report)
    parts = [
        figure.to_html(full_html=False, include_plotlyjs="inline" if number == 0 else False)
        for number, figure in enumerate(figures)
    ]
    facts = "".join(f"<li>{escape(str(k))}: {escape(str(v))}</li>" for k, v in report["device"].items())
    note = escape(report.get("note", ""))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>pagesim bench attention</title></head>'
        f'<body style="font-family: sans-serif"><h1>Paged attention, decode</h1><p><strong>{note}</strong></p>'
        f"<ul>{facts}</ul>{''.join(parts)}</body></html>\n"
    )


def _measured(report: Row) -> list[Any]:
    rows = [row for row in report["rows"] if "time_us" in row]
    figures = []
    for batch in sorted({row["batch"] for row in rows}):
        chosen = [row for row in rows if row["batch"] == batch]
        figures.append(
            _lines(f"Batch {batch}: bytes moved per second", chosen, _kernel_name, "bytes_per_s", "bytes per second")
        )
    if report.get("ratios"):
        figures.append(
            _lines("Paged over contiguous time", report["ratios"], _ratio_name, "paged_over_contiguous", "ratio")
        )
    return figures


def _static(report: Row) -> list[Any]:
    import plotly.graph_objects as go

    names = [
        f"{r['compute_capability']} {r['body']}, blocks of {r['block_size']}, {r['tiles_in_flight']} in flight"
        for r in report["rows"]
    ]
    figures = []
    for field, title in (
        ("loop_instructions", "Instructions in the loop, per tile"),
        ("loop_table_loads", "Loads of block numbers in the loop, per tile"),
        ("registers", "Registers per thread"),
        ("shared_bytes", "Shared memory per program, bytes"),
    ):
        figure = go.Figure(layout={"title": title, "barmode": "group"})
        for addressing in dict.fromkeys(row["addressing"] for row in report["rows"]):
            chosen = [
                (name, row) for name, row in zip(names, report["rows"], strict=True) if row["addressing"] == addressing
            ]
            figure.add_bar(name=addressing, x=[name for name, _ in chosen], y=[row[field] for _, row in chosen])
        figures.append(figure)
    return figures


def _lines(title: str, rows: list[Row], name_of: Any, field: str, axis: str) -> Any:
    """Context on x, one line for each name."""
    import plotly.graph_objects as go

    figure = go.Figure(layout={"title": title, "yaxis": {"title": axis}})
    figure.update_xaxes(title="context, tokens", type="log")
    for name in _unique(name_of(row) for row in rows):
        line = sorted((row["context_tokens"], row[field]) for row in rows if name_of(row) == name)
        figure.add_scatter(name=name, mode="lines+markers", x=[x for x, _ in line], y=[y for _, y in line])
    return figure


def _kernel_name(row: Row) -> str:
    ours = f" {row['addressing']}, {row['tiles_in_flight']} in flight" if "addressing" in row else ""
    return f"{row['kernel']}{ours}, blocks of {row['block_size']}"


def _ratio_name(row: Row) -> str:
    tiles = f"{row['addressing']}, {row['tiles_in_flight']} in flight"
    return f"{tiles}, batch {row['batch']}, blocks of {row['block_size']}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
