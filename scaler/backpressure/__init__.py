"""Everything that answers "may this request enter?". To add a mechanism: one file, and its routes mounted by the composition root."""
