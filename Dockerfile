# docker build -t attachment-gateway .
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gateway
COPY requirements.lock /src/
RUN /opt/gateway/bin/pip install --require-hashes --requirement /src/requirements.lock
COPY pyproject.toml README.md /src/
COPY app /src/app
COPY adapters /src/adapters
RUN /opt/gateway/bin/pip install --no-deps --no-build-isolation --no-index /src \
    && /opt/gateway/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim-bookworm

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
ENTRYPOINT ["attachment-gateway"]
CMD ["serve"]
