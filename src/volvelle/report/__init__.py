"""Tables, pictures and self-contained HTML pages for runs, comparisons and traces."""
