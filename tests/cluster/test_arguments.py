"""Command lines as people and platforms write them: where the page is, and how many requests run at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.cluster.arguments import LONGEST_LINE, EngineFacts, command_line, engine_facts

KSERVE_SCRIPT = r"""# In some versions, ZMQ bind doesn't resolve the address through DNS: --port 1 would not help
if [ "$KSERVE_INFER_ROCE" = "true" ]; then
  echo "Trying to infer RoCE configs ... "
fi
SHUTDOWN_TIMEOUT_ARGS=""
eval "exec vllm serve \
  /mnt/models \
  --served-model-name "llama" "publishers/prod/models/llama" \
  --port 8000 \
  --api-server-count ${VLLM_API_SERVER_COUNT:-8} \
  --data-parallel-size 16 \
  --data-parallel-size-local 8 \
  --data-parallel-start-rank $START_RANK \
  ${SHUTDOWN_TIMEOUT_ARGS} \
  --enable-ssl-refresh \
  --ssl-certfile /var/run/kserve/tls/tls.crt \
  --ssl-keyfile /var/run/kserve/tls/tls.key \
  ${VLLM_ADDITIONAL_ARGS} \
  $@"
"""
KSERVE_LEADER = {
    "name": "main",
    "ports": [{"containerPort": 8000, "protocol": "TCP"}],
    "command": ["/bin/bash", "-c", KSERVE_SCRIPT, "--"],
    "env": [
        {"name": "VLLM_ADDITIONAL_ARGS", "value": "--max-num-seqs 64"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ],
    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTPS"}},
}


def args(*line: str, **rest) -> dict:
    return {"name": "main", "args": list(line), **rest}


def test_kserves_script_of_a_data_parallel_leader_tells_port_scheme_and_the_cap_of_all_ranks():
    assert engine_facts(KSERVE_LEADER, {}) == EngineFacts(8000, "https", 64 * 16)


def test_nothing_is_known_of_a_container_that_says_nothing():
    assert engine_facts({}, {}) == EngineFacts()


@pytest.mark.parametrize(
    ("container", "annotations", "port"),
    [
        pytest.param(args("--port", "9000"), {}, 9000, id="an option and its value"),
        pytest.param(args("--port=9000"), {}, 9000, id="an option with its value"),
        pytest.param(args("--port=8000", "--port", "9000"), {}, 9000, id="the last one, as argparse does"),
        pytest.param(args("vllm serve m --port '9000' --x"), {}, 9000, id="a quoted value in one string"),
        pytest.param(args("--vllm-port=8001", "--port-name", "7"), {}, None, id="other options that look like it"),
        pytest.param(
            args("--port", "$(PORT)", env=[{"name": "PORT", "value": "9000"}]), {}, 9000, id="Kubernetes' variable"
        ),
        pytest.param(args("--port ${PORT:-9000}"), {}, 9000, id="a shell's default"),
        pytest.param(args("--port $PORT"), {}, None, id="a variable that nobody knows"),
        pytest.param(args("--http_port=8080"), {}, 8080, id="KServe's own server"),
        pytest.param(args("--port", "9000", readinessProbe={"httpGet": {"port": 1}}), {}, 9000, id="before the probe"),
        pytest.param(
            args(
                readinessProbe={"httpGet": {"port": "web"}},
                ports=[{"name": "web", "containerPort": 81}, {"containerPort": 82}],
            ),
            {},
            81,
            id="a probe by a port's name",
        ),
        pytest.param(args(readinessProbe={"tcpSocket": {"port": 8080}}), {}, 8080, id="a probe by connection"),
        pytest.param(
            args(
                readinessProbe={"httpGet": {"port": 15020, "path": "/app-health/main/readyz"}},
                ports=[{"containerPort": 8000}],
            ),
            {},
            8000,
            id="not a mesh's port",
        ),
        pytest.param(
            args(ports=[{"containerPort": 1}]), {"prometheus.io/port": "8080"}, 8080, id="Prometheus' annotation"
        ),
        pytest.param(args(), {"prometheus.io/port": "http"}, None, id="an annotation that is no port"),
        pytest.param(args(), {"prometheus.io/port": "9" * 5000}, None, id="an annotation of digits without end"),
        pytest.param(args(), {"prometheus.io/port": "70000"}, None, id="an annotation above all ports"),
        pytest.param(
            args(ports=[{"name": "grpc", "containerPort": 1}, {"name": "metrics", "containerPort": 2}]),
            {},
            2,
            id="by name",
        ),
        pytest.param(args(ports=[{"containerPort": 8033}]), {}, 8033, id="the only one"),
        pytest.param(args(ports=[{"containerPort": 1}, {"containerPort": 2}]), {}, None, id="not one of several"),
    ],
)
def test_the_port_is_the_first_that_is_told(container, annotations, port):
    assert engine_facts(container, annotations).port == port


@pytest.mark.parametrize(
    ("container", "annotations", "scheme"),
    [
        pytest.param(args("--ssl-certfile", "a.crt"), {}, "https", id="a certificate"),
        pytest.param(args("--ssl-keyfile=a.key"), {}, "https", id="a key"),
        pytest.param(args("# --ssl-certfile a.crt\nvllm serve"), {}, "", id="a comment"),
        pytest.param(args("--enable-ssl-refresh"), {}, "", id="another option"),
        pytest.param(args(readinessProbe={"httpGet": {"port": 1, "scheme": "HTTPS"}}), {}, "https", id="the probe"),
        pytest.param(args(readinessProbe={"httpGet": {"port": 1, "scheme": "HTTP"}}), {}, "", id="the probe's default"),
        pytest.param(args(), {"prometheus.io/scheme": "https"}, "https", id="the annotation"),
        pytest.param(args(), {"prometheus.io/scheme": "gopher"}, "", id="no scheme"),
    ],
)
def test_the_scheme_is_https_only_where_something_says_so(container, annotations, scheme):
    assert engine_facts(container, annotations).scheme == scheme


@pytest.mark.parametrize(
    ("line", "cap"),
    [
        ("--max-num-seqs 64", 64),
        ("--max-num-seqs=64", 64),
        ("--max_num_seqs=64", 64),
        ("--max-num-seqs 64 --data-parallel-size 4", 256),
        ("--max-num-seqs 64 -dp 4", 256),
        ("--max-num-seqs 64 --data-parallel-size 4 --data-parallel-rank 1", 64),
        ("--max-num-seqs 64 --data-parallel-size 4 --data-parallel-external-lb", 64),
        ("--max-num-seqs 64 --data-parallel-size 16 --data-parallel-hybrid-lb --data-parallel-size-local 8", 512),
        ("--max-num-seqs 0", None),
        ("--max-num-seqs many", None),
        ("--max-num-batched-tokens 8192", None),
        ("--max-running-requests 48 --dp-size 2", 48),
    ],
)
def test_the_cap_is_that_of_all_ranks_on_the_page(line, cap):
    assert engine_facts(args(*line.split()), {}).cap == cap


@given(st.lists(st.text(st.sampled_from("-=$({:}) '\"\\#\n8portmaxnumseqs"), max_size=30), max_size=4))
def test_no_command_line_is_refused(line):
    facts = engine_facts(args(*line), {})

    assert facts.cap is None or facts.cap > 0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("--port" + " " * 1_000_000, id="a gap"),
        pytest.param("\n" * 1_000_000, id="empty lines"),
        pytest.param("--port " * 200_000, id="options"),
        pytest.param("${a" * 300_000, id="variables"),
    ],
)
def test_a_megabyte_of_nonsense_holds_nobody_up(line):
    """With patterns that look back, each of these took minutes, in which nobody was answered."""
    assert engine_facts(args(line), {}) == EngineFacts()


def test_variables_that_stand_for_more_than_a_line_are_not_unfolded():
    assert len(command_line(args("$(X)" * 8000, env=[{"name": "X", "value": "x" * 1000}]))) == LONGEST_LINE
    assert command_line(args("$(X)", env=[{"name": "X", "value": "x" * 1025}])) == "$(X)"
