# docker build -t attachment-gateway:0.1.0 .
# With IBM MQ, of which the client is only IBM's to give (docs/ibm-mq.md), unpacked in /opt/mqm:
# docker build --target ibm-mq --build-context mq-client=/opt/mqm -t attachment-gateway:0.1.0 .
# With Spark, for drivers and executors alike (docs/spark.md):
# docker build --target pipeline --build-arg LOCK=requirements-pipeline.lock -t attachment-gateway-pipeline:0.1.0 .
# The same base each time: --build-arg BASE=python:3.11-slim-bookworm@sha256:…, of which `make image-check` tells the digest.
# The commit, for the label: --build-arg REVISION=$(git rev-parse HEAD)
ARG BASE=python:3.11-slim-bookworm
FROM $BASE AS build

ARG LOCK=requirements.lock
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gateway
COPY requirements.lock requirements-pipeline.lock /src/
RUN /opt/gateway/bin/pip install --require-hashes --requirement "/src/$LOCK"
COPY attachment_gateway.py pyproject.toml README.md LICENSE /src/
COPY app /src/app
COPY adapters /src/adapters
COPY clients /src/clients
RUN /opt/gateway/bin/pip install --no-deps --no-build-isolation --no-index /src/clients/python /src \
    && /opt/gateway/bin/pip uninstall --yes pip setuptools

FROM $BASE AS build-ibm-mq

RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=mq-client / /opt/mqm/
COPY requirements-mq.lock /src/
RUN MQ_FILE_PATH=/opt/mqm pip install --disable-pip-version-check --no-cache-dir --no-deps --require-hashes \
    --target /opt/mq-packages --requirement /src/requirements-mq.lock

FROM $BASE AS gateway

RUN groupadd --gid 10001 gateway \
    && useradd --uid 10001 --gid gateway --no-create-home --home-dir /var/lib/gateway --shell /usr/sbin/nologin gateway \
    && install --directory --owner gateway --group gateway /var/lib/gateway /etc/gateway
COPY --from=build /opt/gateway /opt/gateway

ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ATTACHMENT_GATEWAY_DATA=/var/lib/gateway \
    ATTACHMENT_GATEWAY_HTTP__HOST=0.0.0.0
WORKDIR /var/lib/gateway
USER 10001:10001
VOLUME /var/lib/gateway
EXPOSE 8080
ARG BASE
ARG REVISION
LABEL org.opencontainers.image.title="attachment-gateway" \
      org.opencontainers.image.description="Attachments from message brokers to REST and back" \
      org.opencontainers.image.version=0.1.0 \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.base.name=$BASE
ENTRYPOINT ["attachment-gateway"]
CMD ["serve"]

FROM gateway AS ibm-mq

COPY --from=mq-client / /opt/mqm/
COPY --from=build-ibm-mq /opt/mq-packages /opt/gateway/lib/python3.11/site-packages/
ENV LD_LIBRARY_PATH=/opt/mqm/lib64

# The user is the gateway's, whose journal and content Spark works with where they share a volume.
FROM $BASE AS pipeline

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 gateway \
    && useradd --uid 10001 --gid gateway --no-create-home --home-dir /var/lib/gateway --shell /usr/sbin/nologin gateway \
    && install --directory --owner gateway --group gateway /var/lib/gateway /etc/gateway
COPY --from=build /opt/gateway /opt/gateway
RUN /opt/gateway/bin/python -c 'import pyspark' \
    || { echo "This image needs Spark: add --build-arg LOCK=requirements-pipeline.lock" >&2; exit 1; }

ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/opt/gateway/bin/python \
    SPARK_HOME=/opt/gateway/lib/python3.11/site-packages/pyspark \
    ATTACHMENT_GATEWAY_DATA=/var/lib/gateway
WORKDIR /var/lib/gateway
USER 10001:10001
VOLUME /var/lib/gateway
ARG BASE
ARG REVISION
LABEL org.opencontainers.image.title="attachment-gateway-pipeline" \
      org.opencontainers.image.description="Spark's part of the attachment gateway" \
      org.opencontainers.image.version=0.1.0 \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.base.name=$BASE
ENTRYPOINT ["tini", "-s", "--", "python", "-m", "app.pipeline.job.container"]
CMD ["pipeline", "stream"]

# The one that is built when no other is asked for.
FROM gateway
