"""A matrix as a page: a heat map of margins that needs nothing but itself.

Enters: a `Matrix`. Leaves: HTML. Each cell says its verdict and margin in words, so colour only repeats them: the
fuller a device, the stronger its colour, on a scale of its own for what fits and for what does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from vx.admission.matrix import Cell, Matrix
from vx.admission.matrix_render import amount, counted, gib, heading, short_names
from vx.admission.matrix_table import Configuration
from vx.admission.plan import Verdict

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 2rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 2px; }
th { text-align: left; font-weight: 600; padding: .3rem .6rem; white-space: nowrap; }
td { padding: .3rem .6rem; min-width: 6.5rem; font-variant-numeric: tabular-nums; }
td.needed { text-align: right; white-space: nowrap; }
td small { display: block; }
"""
_HUES = {Verdict.ADMITTED.value: 150, Verdict.REJECTED.value: 15}
_GREY = "#e0e0e0"


def render_html(matrix: Matrix) -> str:
    """The whole page."""
    return "\n".join(_page(matrix)) + "\n"


def _page(matrix: Matrix) -> Iterator[str]:
    title = escape(heading(matrix))
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield f'<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
    yield f"<style>{_STYLE}</style></head>"
    yield "<body><main>"
    yield f"<h1>{title}</h1>"
    yield f"<p>Deployment fit: {counted(matrix.counts)}. Device fit: {counted(matrix.device_counts)}.</p>"
    yield '<div class="scroll"><table>'
    yield "<caption>Verdict, and what is left when the reserve is kept (below it: of the device), in GiB</caption>"
    labels = short_names(matrix).items()
    heads = "".join(f'<th scope="col" title="{escape(name)}">{escape(label)}</th>' for name, label in labels)
    yield f'<thead><tr><th scope="col">configuration</th><th scope="col">needed</th>{heads}</tr></thead>'
    yield "<tbody>"
    for configuration in matrix.table.configurations:
        yield _row(configuration, matrix.row(configuration))
    yield "</tbody></table></div>"
    yield from _differences(matrix)
    yield "</main></body></html>"


def _row(configuration: Configuration, cells: tuple[Cell, ...]) -> str:
    needed = max((cell.required for cell in cells if cell.required is not None), default=None)
    shown = "" if needed is None else amount(needed)
    fields = (("model", configuration.model), ("context", configuration.context), ("batch", configuration.batch))
    details = ", ".join(f"{name} {value}" for name, value in (*fields, ("TP", configuration.tp)) if value is not None)
    head = f'<th scope="row" title="{escape(details)}">{escape(configuration.name)}</th>'
    return f'<tr>{head}<td class="needed">{shown}</td>{"".join(map(_cell, cells))}</tr>'


def _cell(cell: Cell) -> str:
    bytes_ = f"{cell.required} of {cell.available} bytes" if cell.margin is not None else "no figure"
    margin = "" if cell.margin is None else f" {gib(cell.margin)}"
    device = (
        "" if cell.device_margin is None else f"<small>device {cell.device_verdict} {gib(cell.device_margin)}</small>"
    )
    return f'<td style="background:{_colour(cell)}" title="{bytes_}">{escape(cell.verdict)}{margin}{device}</td>'


def _colour(cell: Cell) -> str:
    """Light enough for dark text in all cases; grey without a margin."""
    hue = _HUES.get(cell.verdict)
    if hue is None or cell.margin is None or not cell.available or cell.required is None:
        return _GREY
    used = cell.required / cell.available
    strength = min(used, 1.0) if cell.margin >= 0 else min(max(used - 1.0, 0.0), 1.0)
    return f"hsl({hue} 60% {92 - round(20 * strength)}%)"


def _differences(matrix: Matrix) -> Iterator[str]:
    if matrix.other is None:
        return
    other = escape(matrix.other.table.name)
    yield f"<h2>Verdicts that differ from {other}</h2>"
    yield '<div class="scroll"><table>'
    names = ("configuration", "machine", "needed, bytes", f"{other}, bytes", "available, bytes", "verdict", other)
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for mine, their in matrix.differences():
        head = f'<th scope="row">{escape(mine.configuration.name)}</th>'
        texts = (mine.machine, mine.required, their.required, mine.available, mine.verdict, their.verdict)
        cells = "".join(f"<td>{escape(str(text))}</td>" for text in texts)
        yield f"<tr>{head}{cells}</tr>"
    yield "</tbody></table></div>"
