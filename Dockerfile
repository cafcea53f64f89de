# Pin the base for a release: --build-arg BASE_DIGEST=@sha256:<digest of python:3.11-slim>
ARG BASE_DIGEST=""

FROM python:3.11-slim${BASE_DIGEST} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY .ci/locks/build.txt .ci/locks/runtime.txt ./locks/
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r locks/build.txt \
 && python -m venv /opt/slo-scaler && /opt/slo-scaler/bin/pip install --require-hashes -r locks/runtime.txt
COPY pyproject.toml README.md* ./
COPY scaler ./scaler
# The wheel is made with the locked setuptools, so nothing unlisted is fetched; pip itself has no place in the result.
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
 && /opt/slo-scaler/bin/pip install --no-deps --no-index wheels/*.whl \
 && /opt/slo-scaler/bin/pip uninstall --yes setuptools pip

FROM python:3.11-slim${BASE_DIGEST}
COPY --from=build /opt/slo-scaler /opt/slo-scaler
ENV PATH=/opt/slo-scaler/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Numeric, so that Kubernetes can verify runAsNonRoot without reading /etc/passwd.
USER 65532:65532
EXPOSE 6000 6001 8080 8081
HEALTHCHECK --interval=10s --timeout=2s --start-period=10s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/livez', timeout=1)"]
ENTRYPOINT ["slo-scaler", "serve"]
