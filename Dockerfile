# The agent's image: docker build -t karmada-vc-agent:0.1.0 .
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY karmada_vc_agent karmada_vc_agent
# Only files with the pinned hashes are taken; of them the agent and its build get what they need.
RUN pip download --no-cache-dir --no-deps --require-hashes --requirement constraints.txt --dest /wheels
RUN python -m venv /app && /app/bin/pip install --no-cache-dir --no-index --find-links /wheels .

FROM python:3.12-slim
COPY --from=build /app /app
USER 65532
ENTRYPOINT ["/app/bin/karmada-vc-agent"]
