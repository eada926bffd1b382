"""Tables, charts and self-contained HTML pages for runs, comparisons and traces.

    Outcomes ──▶ summary ────▶ table ──────▶ text, JSON, CSV, HTML ──┐
             ├─▶ run_charts ─▶ charts ─────▶ SVG, PNG files ─────────┼─▶ page (HTML)
             └─▶ gantt ──────▶ gantt_view ─▶ canvas, PNG file ───────┘

`run_report`, `compare_report` and `describe_report` each put one page and its charts together; PNG files
are painted only where they are asked for.
"""
