# docker build -t slo-scaler .
# A release pins what the tag means today, for both stages: --build-arg BASE_DIGEST=sha256:<digest of python:3.11-slim>
ARG BASE_DIGEST=""

FROM python:3.11-slim${BASE_DIGEST:+@${BASE_DIGEST}} AS build
# Wheels only: nothing is compiled, and no package's own build code runs.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ONLY_BINARY=:all: PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY .ci/locks/build.txt .ci/locks/runtime.txt ./
# prometheus-api-client needs the packages that are taken out again to guess dates in free text. We send it timestamps.
RUN python -m pip install --require-hashes -r build.txt \
 && python -m venv --without-pip /opt/slo-scaler \
 && python -m pip --python /opt/slo-scaler install --no-compile --require-hashes -r runtime.txt \
 && python -m pip --python /opt/slo-scaler uninstall --yes dateparser python-dateutil pytz regex tzdata tzlocal
COPY pyproject.toml README.md ./
COPY scaler ./scaler
# The wheel is made with the locked setuptools, so nothing unlisted is fetched. What only type checkers and compilers read stays out.
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
 && python -m pip --python /opt/slo-scaler install --no-compile --no-deps --no-index wheels/*.whl \
 && find /opt/slo-scaler -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \) -delete
# Importing every module proves that none is missing, and leaves the bytecode of just what is used. That halves the time to
# start: the base image has no bytecode even of the standard library, and a read-only file system could not keep any.
ENV PYTHONPYCACHEPREFIX=/opt/slo-scaler/bytecode
RUN /opt/slo-scaler/bin/python -P -c "import importlib, pkgutil, scaler; \
  [importlib.import_module(module.name) for module in pkgutil.walk_packages(scaler.__path__, 'scaler.')]"

FROM python:3.11-slim${BASE_DIGEST:+@${BASE_DIGEST}}
LABEL org.opencontainers.image.title="slo-scaler" \
      org.opencontainers.image.description="A KEDA external scaler for LLM inference that scales and sheds load from one SLO estimate" \
      org.opencontainers.image.version="0.1.0"
# The base image's pip, setuptools and wheel have no use here.
RUN rm -rf /usr/local/lib/python3.*/site-packages/* /usr/local/lib/python3.*/ensurepip /usr/local/bin/pip* /usr/local/bin/wheel
COPY --from=build /opt/slo-scaler /opt/slo-scaler
# Everything belongs to root and nothing is ever written, so any user will do, and the root file system may be read-only.
ENV PATH=/opt/slo-scaler/bin:$PATH PYTHONPYCACHEPREFIX=/opt/slo-scaler/bytecode PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Numeric, so that Kubernetes can verify runAsNonRoot without reading /etc/passwd.
USER 65532:65532
EXPOSE 6000 6001 8080 8081
STOPSIGNAL SIGTERM
# Kubernetes has its own probes; this is for Docker and Compose. It follows the variables that move the port.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "from http.client import HTTPConnection; from os import environ; \
       ops = HTTPConnection(environ.get('SLO_SCALER_HOST', '127.0.0.1').strip('[]'), environ.get('SLO_SCALER_OPS_PORT', 8081), timeout=4); \
       ops.request('GET', '/livez'); raise SystemExit(ops.getresponse().status != 200)"]
ENTRYPOINT ["slo-scaler", "serve"]
