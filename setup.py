from pathlib import Path

from setuptools import find_packages, setup

formats = ["ai-edge-litert>=2.1", "nncf>=3", "onnx>=1.19", "onnxruntime>=1.23", "openvino>=2025.4", "tf2onnx>=1.17"]
serve = [
    "starlette>=0.47",
    "uvicorn>=0.35",
    "httptools>=0.6",
    "uvloop>=0.21; sys_platform != 'win32'",
    "prometheus-client>=0.21",
]
recipes = [
    "tensorflow-datasets>=4.9.7",
    "importlib_resources",  # tensorflow-datasets needs it and does not declare it
    "keras-cv>=0.9",  # Augment(mosaic=...)
    "tensorboard>=2.20",  # shows the events and profiles of runs
    "scikit-learn>=1.5",  # the bundled digits
]
analysis = ["matplotlib>=3.9", "scikit-learn>=1.5"]
parquet = ["pyarrow>=18"]
heic = ["pillow-heif>=1"]
hub = ["huggingface_hub>=1.0"]  # resumes and caches downloads of `hf://ORG/NAME`, as other libraries do
search = ["optuna>=5"]  # proposes the settings of `keras-vit sweep`
completion = ["shtab>=1.13"]  # writes the scripts of `keras-vit completion`
mlflow = ["mlflow-skinny>=3"]  # `keras-vit train --log mlflow`, without MLflow's own server
wandb = ["wandb>=0.22"]  # `keras-vit train --log wandb`
docs = [
    "sphinx>=8.2",  # builds the site and its search index
    "myst-nb>=1.3",  # reads Markdown and executes the guides
    "furo>=2025.7",  # a theme that loads no file from outside
    "sphinx-argparse>=0.5",  # the page of the command line, from its parsers
]

setup(
    name="keras-vit-zoo",  # the import name is keras_vit; `keras-vit` on PyPI is another project
    version="0.1.0",
    description="Vision Transformers for Keras, numerically equal to the official code",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["keras_vit", "keras_vit.*"]),
    package_data={
        "keras_vit": [
            "py.typed",
            "preprocessing/imagenet_classes.csv",
            "serve/page.html",
            "cost/paper.json",
            "weights/timm_architectures.csv",
            "weights/timm_arrays.csv",
            "weights/timm_checkpoints.csv",
            "weights/transformers_checkpoints.csv",
        ]
    },
    python_requires=">=3.11",
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "keras>=3.15,<3.16",
        "numpy>=1.26",
        "pillow>=11.3",
        "tqdm>=4.66",
        "safetensors>=0.5",
        "packaging>=24",  # compares versions in `keras-vit doctor`; Keras needs it, too
    ],
    extras_require={
        "recipes": recipes,
        "analysis": analysis,
        "serve": serve,
        "formats": formats,
        "parquet": parquet,
        "heic": heic,
        "hub": hub,
        "search": search,
        "completion": completion,
        "mlflow": mlflow,
        "wandb": wandb,
        "docs": docs,
        "parity": ["torch", "torchvision", "timm>=1.0.31", "transformers>=5", "keras-hub>=0.32", "kserve>=0.15"],
        "dev": [
            *recipes,
            *analysis,
            *serve,
            *formats,
            *parquet,
            *heic,
            *hub,
            *search,
            *completion,
            "pytest>=8",
            "pytest-xdist>=3.6",
            "ruff>=0.15",
            "mypy>=2.1",
            "nbclient>=0.10",  # runs the notebook of a test
            "ipykernel>=6.29",
            "jax",
            "optax",
            "scipy",
        ],
    },
    entry_points={"console_scripts": ["keras-vit=keras_vit.cli:main"]},
)
