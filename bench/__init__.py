"""Benchmarks: each prints ratios measured side by side in one run. They inform; no test asserts a duration."""
