# Serves exports over HTTP. Build it in the clone, and run it with a folder of exports:
#   docker build -f docker/serve.Dockerfile -t keras-vit-serve .
#   docker run --rm -p 8501:8501 -v "$PWD/saved_models:/models:ro" keras-vit-serve /models/digits
FROM python:3.11-slim

WORKDIR /source
COPY setup.py pyproject.toml constraints.txt README.md LICENSE ./
COPY keras_vit keras_vit
RUN pip install --no-cache-dir -c constraints.txt ".[serve]"

RUN useradd --create-home --uid 1000 server
USER 1000
WORKDIR /home/server

EXPOSE 8501
# Every request must name the server; other names than localhost and IP addresses need --allowed-host NAME.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:8501/v2/health/ready', timeout=4)"]
ENTRYPOINT ["keras-vit", "serve", "--host", "0.0.0.0", "--port", "8501"]
CMD ["/models/digits"]
