# The agent's image: docker build -t karmada-vc-agent:0.1.0 .
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY karmada_vc_agent karmada_vc_agent
RUN python -m venv /app && /app/bin/pip install --no-cache-dir --constraint constraints.txt .

FROM python:3.12-slim
COPY --from=build /app /app
USER 65532
ENTRYPOINT ["/app/bin/karmada-vc-agent"]
