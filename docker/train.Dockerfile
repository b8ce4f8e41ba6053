# Trains recipes. Build it in the clone, and run it with folders for the data and the runs:
#   docker build -f docker/train.Dockerfile -t keras-vit-train .
#   docker run --rm --user "$(id -u)" -v "$PWD/runs:/runs" -v "$PWD/photos:/data:ro" keras-vit-train \
#     recipes/image_folder.py --workdir /runs/photos --data-dir /data
FROM python:3.11-slim

WORKDIR /source
COPY setup.py pyproject.toml constraints.txt README.md LICENSE ./
COPY keras_vit keras_vit
RUN pip install --no-cache-dir -c constraints.txt ".[recipes]"

RUN useradd --create-home --uid 1000 trainer && install --directory --owner=1000 /runs
WORKDIR /home/trainer
COPY recipes recipes
USER 1000
# With `--user` the home folder belongs to somebody else, and downloaded weights need a folder.
ENV HOME=/tmp

# A run ends by itself, and its exit status tells whether it failed. The same command resumes a stopped run.
HEALTHCHECK NONE
ENTRYPOINT ["keras-vit", "train"]
CMD ["recipes/digits.py", "--workdir", "/runs/digits"]
