"""Where readings come from: a source asks the replicas, or something that asked them, and delivers a ``Scrape``.

Sources hand out raw cumulative counters; rates are computed once, in ``core.windows``. A replica that gave no page is
a ``Missing`` with the reason, never an exception and never a zero.
"""
