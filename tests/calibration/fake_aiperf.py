"""A load tester for tests: AIPerf's options in, its file out, from a replica that serves ``KNEE`` requests at a time, a second each.

``HANGS_AT`` is a concurrency at which it tells ``WATCHER`` its process id and then waits; at ``BREAKS_AT`` it fails as AIPerf does, and
at ``REFUSED_AT`` half of the requests fail; at ``TORN_AT`` it ends in the middle of its result.
"""

import json
import os
import signal
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

LEVELS = {"HANGS_AT", "BREAKS_AT", "REFUSED_AT", "TORN_AT"}


def main(words):
    given = {word: value for word, value in pairwise(words) if word.startswith("--")}
    concurrency, requests = int(given["--concurrency"]), int(given["--request-count"])
    at = {name for name in LEVELS if os.environ.get(name) == str(concurrency)}
    if "HANGS_AT" in at:
        urllib.request.urlopen(f"{os.environ['WATCHER']}/hangs/{os.getpid()}").close()
        signal.pause()
    if "BREAKS_AT" in at:
        sys.stdout.write("\x1b[31mERROR\x1b[0m All 240 inference request(s) failed\n")
        return 1
    folder = Path(given["--artifact-dir"])
    failed = requests // 2 if "REFUSED_AT" in at else 0
    knee = int(os.environ["KNEE"])
    (folder / "inputs.json").write_text('{"data": []}')
    result = measured(concurrency, requests - failed, knee) | {"error_request_count": {"avg": failed}}
    text = json.dumps(result | told(given, concurrency))
    (folder / "profile_export_aiperf.json").write_text(text[:100] if "TORN_AT" in at else text)
    return 0


def measured(concurrency, requests, knee):
    wait_s = max(0.0, concurrency / knee - 1.0)
    per_s = min(concurrency, knee) * (1 + requests * 1e-9)
    return {
        "request_count": {"avg": requests},
        "request_throughput": {"avg": per_s},
        "request_latency": {"avg": 1e3 * (1 + wait_s)},
        "time_to_first_token": block(1e3 * (0.1 + wait_s)),
        "inter_token_latency": block(20.0),
        "usage_prompt_tokens": {"avg": 1000},
        "usage_completion_tokens": {"avg": 200},
    }


def block(most):
    shape = {"min": 0.8, "p50": 0.9, "p90": 0.95, "p95": 0.97, "p99": 0.99, "max": 1.0, "avg": 0.9}
    return {key: most * share for key, share in shape.items()}


def told(given, concurrency):
    phase = {"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": concurrency}
    config = {"models": {"items": [{"name": given["--model"]}]}, "phases": [phase]}
    return {"aiperf_version": "0.13.0", "input_config": config, "was_cancelled": False, "is_complete": True}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
