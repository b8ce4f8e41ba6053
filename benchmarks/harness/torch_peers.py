"""The contestants on torch: timm and transformers, as they come and compiled. Imports nothing of the package.

`mixed_bfloat16` is autocast, `bfloat16` a model whose weights are stored in it. B batch, S side in pixels.
"""

import functools
import re
from importlib.util import find_spec
from pathlib import Path

CLASSES = 1000
RATE, DECAY = 1e-4, 0.1  # AdamW's


def timm(contestant: dict):
    """timm's model, eager."""
    return _prepare(contestant, _timm_model)


def timm_compiled(contestant: dict):
    """timm's model through `torch.compile`."""
    return _prepare(contestant, _timm_model, compiled=True)


def transformers(contestant: dict):
    """transformers' model with scaled-dot-product attention, eager."""
    return _prepare(contestant, _transformers_model)


def transformers_compiled(contestant: dict):
    """transformers' model with scaled-dot-product attention through `torch.compile`."""
    return _prepare(contestant, _transformers_model, compiled=True)


def _prepare(contestant, build, compiled=False):
    import torch

    gpu = contestant["device"] == "gpu"
    if gpu and not torch.cuda.is_available():
        raise ValueError("torch finds no GPU")
    place = torch.device("cuda" if gpu else "cpu")
    torch.backends.cudnn.benchmark = True  # it may choose its convolutions' algorithms
    if gpu:
        torch.set_float32_matmul_precision("high")  # TensorFloat-32, which JAX and TensorFlow multiply in by default
    declare_vision_operators()
    size, batch, dtype = contestant["image_size"], contestant["batch"], contestant["dtype"]
    train = contestant["task"] == "train"
    model = build(contestant).to(place).train(train)
    images = (2 * torch.rand(batch, 3, size, size) - 1).to(place)
    if dtype == "bfloat16":
        model, images = model.to(torch.bfloat16), images.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True) if train else None
    model = torch.compile(model) if compiled else model
    autocast = functools.partial(torch.autocast, place.type, torch.bfloat16, enabled=dtype == "mixed_bfloat16")
    labels = (torch.arange(batch) % CLASSES).to(place)

    wait = torch.cuda.synchronize if gpu else lambda: None

    def logits():
        answer = model(images)
        return answer if isinstance(answer, torch.Tensor) else answer.logits

    def forward():
        with torch.inference_mode(), autocast():
            logits()
        wait()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = torch.nn.functional.cross_entropy(logits(), labels)
        loss.backward()
        optimizer.step()
        wait()
        return loss.item()

    call = step if train else forward
    return (call, torch.cuda.max_memory_allocated) if gpu else call


def _timm_model(contestant):
    import timm as library

    row = contestant["row"]
    if row["timm_name"] is None:
        raise ValueError(f"timm has no {contestant['model']}")
    if row["kind"] == "bit":
        return library.create_model(row["timm_name"], num_classes=CLASSES)
    sizes = {"img_size": contestant["image_size"], "depth": row["depth"]}
    names = library.list_models(row["timm_name"] + "*")
    name = next((n for n in (f"{row['timm_name']}_224", row["timm_name"]) if n in names), None)
    if name is None:
        raise ValueError(f"timm has no {contestant['model']}")
    return library.create_model(name, num_classes=CLASSES, **sizes)


def _transformers_model(contestant):
    import transformers as library

    row = contestant["row"]
    if row["kind"] == "bit":
        sizes = {"depths": row["units"], "embedding_size": 64 * row["width_factor"]}
        sizes["hidden_sizes"] = [256 * row["width_factor"] * 2**i for i in range(len(row["units"]))]
        return library.BitForImageClassification(library.BitConfig(num_labels=CLASSES, **sizes))
    if row["kind"] not in ("vit", "clip", "dinov2", "dinov3") or row["patch_size"][0] != row["patch_size"][1]:
        raise ValueError(f"transformers has no {contestant['model']}")
    sizes = {
        "hidden_size": row["width"],
        "num_hidden_layers": row["depth"],
        "num_attention_heads": row["num_heads"],
        "patch_size": row["patch_size"][0],
        "image_size": contestant["image_size"],
    }
    common = {"num_labels": CLASSES, "attn_implementation": "sdpa"}
    dinov2 = {"use_swiglu_ffn": row.get("gated_mlp", False), **sizes}
    sizes["intermediate_size"] = row["mlp_dim"]
    if row["kind"] == "vit":
        return library.ViTForImageClassification(library.ViTConfig(**sizes, **common))
    if row["kind"] == "clip":
        return library.CLIPForImageClassification(library.CLIPConfig(vision_config=sizes, **common))
    if row["kind"] == "dinov2" and row["registers"]:
        config = library.Dinov2WithRegistersConfig(num_register_tokens=row["registers"], **dinov2, **common)
        return library.Dinov2WithRegistersForImageClassification(config)
    if row["kind"] == "dinov2":
        return library.Dinov2ForImageClassification(library.Dinov2Config(**dinov2, **common))
    sizes |= {"num_register_tokens": row["registers"], "use_gated_mlp": row["gated_mlp"]}
    sizes |= dict(zip(("query_bias", "key_bias", "value_bias"), row["qkv_biases"], strict=True))
    config = library.DINOv3ViTConfig(**sizes, **common)
    return _with_head(library.DINOv3ViTModel(config), row["width"])


def _with_head(backbone, width: int):
    """Return a classifier of the class token of a transformers model."""
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = backbone, torch.nn.Linear(width, CLASSES)

        def forward(self, images):
            return self.head(self.backbone(images).pooler_output)

    return Classifier()


_DECLARED = []


def declare_vision_operators() -> None:
    """Name torchvision's compiled operators where they do not load, so that timm and transformers can be imported."""
    import torch

    spec = find_spec("torchvision")
    if _DECLARED or spec is None or _vision_operators_load(spec.submodule_search_locations[0]):
        return
    source = Path(spec.submodule_search_locations[0], "_meta_registrations.py").read_text()
    named = re.findall(r'register_meta\("(\w+)"\)', source) + re.findall(r"torchvision::(\w+)", source)
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted(set(named)):
        library.define(f"{name}(Tensor x) -> Tensor")
    _DECLARED.append(library)  # the names last as long as it does


def _vision_operators_load(folder: str) -> bool:
    """Load torchvision's operators, as its import does: that would end the process if they had names by then."""
    import torch

    try:
        for library in Path(folder).glob("_C.*"):
            torch.ops.load_library(library)
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")
