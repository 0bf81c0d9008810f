#!/usr/bin/env python3
"""Replaces the table of an area in docs/benchmarks.md by the figures of these runs.

    cargo run --release -p bench -- sync --json 1.json      # and 2.json, 3.json
    python3 bench/tables.py sync 1.json 2.json 3.json

The figures are medians over the runs. A bar is met if the median of its ratios is within it.
"""

import json
import statistics
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs/benchmarks.md"


def main():
    area, *files = sys.argv[1:]
    runs = [{row["id"]: row for row in json.loads(Path(file).read_text())["rows"]} for file in files]
    lines = [line(identifier, [run[identifier] for run in runs if identifier in run])
             for identifier in runs[0]]
    begin, end = f"<!-- {area} -->\n", f"<!-- end of {area} -->"
    text = DOCUMENT.read_text()
    before, rest = text.split(begin)
    _, after = rest.split(end)
    head = "| row | ours | peer | ratio | bar | |\n|---|---|---|---|---|---|\n"
    DOCUMENT.write_text(before + begin + head + "".join(lines) + end + after)


def line(identifier, rows):
    bars = [row["bar"] for row in rows if "bar" in row]
    peers = {name for row in rows for name in row["peers"]}
    against = bars[0]["against"] if bars else min(
        peers, key=lambda name: median(row["peers"].get(name) for row in rows), default=None)
    fast = "per_second" in rows[0]
    ours = figure(median(row["ours"] for row in rows), rows[0], fast)
    # The bar's own figure may be a limit, or another of ours.
    others = [{**row["peers"], **row.get("also_ours", {})}.get(against) for row in rows]
    known = [other for other in others if other is not None]
    peer = against or "-"
    if known:
        peer += " " + figure(median(known), rows[0], fast)
    if bars:
        ratio, at_most = median(bar["ratio"] for bar in bars), bars[0]["at_most"]
        met = "met" if ratio <= at_most else "**missed**"
        if "spread" in bars[0]:
            spread, limit = median(bar["spread"] for bar in bars), bars[0]["spread_at_most"]
            met += f"; spread {spread:.1f} of {limit:g}" + (", **missed**" if spread > limit else "")
        bar = f"at least {1 / at_most:.3g}" if fast else f"{at_most:.3g}"
    else:
        ratios = [row["ours"] / other for row, other in zip(rows, others) if other]
        ratio, bar, met = (median(ratios) if ratios else None), "-", ""
    words = "-" if ratio is None else f"{1 / ratio if fast else ratio:.2f}"
    return f"| `{identifier}` | {ours} | {peer} | {words} | {bar} | {met} |\n"


def median(figures):
    figures = [figure for figure in figures if figure is not None]
    return statistics.median(figures) if figures else float("inf")


def figure(value, row, fast):
    value, unit = (1e6 / value, "/s") if fast else (value, row["unit"])
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} {unit}".replace(",", " ")


if __name__ == "__main__":
    main()
