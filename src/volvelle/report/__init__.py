"""Tables, pictures and self-contained HTML pages for runs, comparisons and traces.

    Outcomes ──▶ metrics ──▶ table ──────▶ terminal, JSON, CSV ──┐
             ├─▶ pictures ─▶ charts ─────▶ PNG files, SVG ───────┼─▶ page (HTML)
             └─▶ gantt ────▶ gantt_view ─▶ PNG file, canvas ─────┘

`run_report`, `compare_report` and `describe_report` each put one page and its pictures together.
"""
