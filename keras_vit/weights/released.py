"""List the published checkpoints as rows, and augreg's 50,000 files by the grammar of their names.

Sources: the listings and tables of the google-research/vision_transformer and big_transfer repositories; timm's tags
where timm has the file. Nothing here was measured by this package.
"""

from dataclasses import dataclass
from urllib.parse import quote

SERVER = "https://storage.googleapis.com"
_README = "README of google-research/vision_transformer"


@dataclass(frozen=True)
class Released:
    """One published file.

    Args:
        tag: timm's tag, or one in timm's style.
        model: name of the builder.
        path: path on the server, such as `vit_models/sam/ViT-B_16.npz`.
        classes: number of classes; None if the name does not state it.
        image_size: side in pixels; None if the model takes any size.
        accuracy: published top-1 accuracy on ImageNet's validation set.
        source: publication of the accuracy.
        size: size in bytes, if known.
        sha256: hash, or its first 8 digits, if known.
        note: remark about the file.
        server: the publisher's server.
    """

    tag: str
    model: str
    path: str
    classes: int | None
    image_size: int | None
    accuracy: float | None = None
    source: str | None = None
    size: int | None = None
    sha256: str | None = None
    note: str = ""
    server: str = SERVER

    @property
    def url(self) -> str:
        """Return the URL of the file."""
        return f"{self.server}/{quote(self.path)}"

    @property
    def place(self) -> str:
        """Return the path of the file in the cache and on mirrors: after the host's name, except of `SERVER`."""
        return self.path if self.server == SERVER else f"{self.server.partition('://')[2]}/{self.path}"

    @property
    def has_representation(self) -> bool:
        """Return whether a tanh layer of the model's width precedes the classifier, as in the files of one folder."""
        return self.path.startswith(f"vit_models/{_21K}/")

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the official names: `sam/ViT-B_16`, and for augreg and BiT the file name."""
        short = self.path.removesuffix(".npz").partition("/")[2]
        file_name = short.rpartition("/")[2]
        return (
            (short, file_name)
            if file_name != short and self.path.startswith(("vit_models/augreg", "bit_models"))
            else (short,)
        )


AUGREG_MODELS = {  # official name: names of the builder and in timm
    "Ti_16": ("ViT_Ti16", "vit_tiny_patch16"),
    "S_32": ("ViT_S32", "vit_small_patch32"),
    "S_16": ("ViT_S16", "vit_small_patch16"),
    "B_32": ("ViT_B32", "vit_base_patch32"),
    "B_16": ("ViT_B16", "vit_base_patch16"),
    "B_8": ("ViT_B8", "vit_base_patch8"),
    "L_16": ("ViT_L16", "vit_large_patch16"),
    "R_Ti_16": ("R_ViT_Ti16", "vit_tiny_r_s16_p8"),
    "R26_S_32": ("R26_ViT_S32", "vit_small_r26_s32"),
    "R26_B_32": ("R26_ViT_B32", "vit_base_r26_s32"),
    "R50_L_32": ("R50_ViT_L32", "vit_large_r50_s32"),
}
OFFICIAL_MODELS = {
    "ViT-S_32": ("ViT_S32", "vit_small_patch32"),
    "ViT-S_16": ("ViT_S16", "vit_small_patch16"),
    "ViT-B_32": ("ViT_B32", "vit_base_patch32"),
    "ViT-B_16": ("ViT_B16", "vit_base_patch16"),
    "ViT-B_8": ("ViT_B8", "vit_base_patch8"),
    "ViT-L_32": ("ViT_L32", "vit_large_patch32"),
    "ViT-L_16": ("ViT_L16", "vit_large_patch16"),
    "ViT-H_14": ("ViT_H14", "vit_huge_patch14"),
    "R26+ViT-B_32": ("R26_ViT_B32", "vit_base_r26_s32"),
    "R50+ViT-B_16": ("R50_ViT_B16", "vit_base_r50_s16"),
    "R50+ViT-L_32": ("R50_ViT_L32", "vit_large_r50_s32"),
}


def _official(folder: str, name: str, suffix: str, classes: int, size: int, **more) -> Released:
    model, timm = OFFICIAL_MODELS[name.removesuffix("-224")]
    return Released(f"{timm}_{size}.{suffix}", model, f"vit_models/{folder}/{name}.npz", classes, size, **more)


_21K, _BOTH = "imagenet21k", "imagenet21k+imagenet2012"
_ZEROS = {"note": "its classifier is all zeros"}
_ORIGINAL = (
    *(
        _official(_21K, name, "orig_in21k", 21843, 224, **(_ZEROS if name in ("ViT-L_32", "ViT-H_14") else {}))
        for name in (
            *("ViT-B_8", "ViT-B_16", "ViT-B_32", "ViT-L_16", "ViT-L_32", "ViT-H_14"),
            *("R26+ViT-B_32", "R50+ViT-B_16", "R50+ViT-L_32"),
        )
    ),
    _official(_BOTH, "ViT-B_16-224", "orig_in21k_ft_in1k", 1000, 224, accuracy=0.812, source=_README),
    _official(_BOTH, "ViT-L_16-224", "orig_in21k_ft_in1k", 1000, 224, accuracy=0.827, source=_README),
    *(
        _official(_BOTH, name, "orig_in21k_ft_in1k", 1000, 384)
        for name in ("ViT-B_8", "ViT-B_16", "ViT-B_32", "ViT-L_16", "ViT-L_32", "R50+ViT-B_16")
    ),
    *(
        _official("sam", name, "sam_in1k", 1000, 224)
        for name in ("ViT-B_16", "ViT-B_32", "ViT-L_16", "ViT-L_32", "ViT-S_16")
    ),
)

# timm's choice among the augreg files: (model, image size, pre-training, learning rate of fine-tuning).
_21K_TAGS = (
    ("Ti_16", 224, "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("Ti_16", 384, "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("S_32", 224, "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("S_32", 384, "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("S_16", 224, "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("S_16", 384, "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("B_32", 224, "aug_medium1-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("B_32", 384, "aug_light1-wd_0.1-do_0.0-sd_0.0", "0.03"),
    ("B_16", 224, "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.01"),
    ("B_16", 384, "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.01"),
    ("B_8", 224, "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.01"),
    ("L_16", 224, "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01"),
    ("L_16", 384, "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01"),
    ("R_Ti_16", 224, "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("R_Ti_16", 384, "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("R26_S_32", 224, "aug_light0-wd_0.03-do_0.1-sd_0.1", "0.03"),
    ("R26_S_32", 384, "aug_medium2-wd_0.03-do_0.0-sd_0.0", "0.03"),
    ("R50_L_32", 224, "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01"),
    ("R50_L_32", 384, "aug_medium2-wd_0.1-do_0.0-sd_0.0", "0.01"),
)
_UPSTREAM_TAGS = {short: how for short, size, how, _ in _21K_TAGS if size == 224} | {
    # timm's fine-tuned files at 224 pixels started from other ones
    "R26_S_32": "aug_medium2-wd_0.03-do_0.0-sd_0.0",
    "R50_L_32": "aug_medium2-wd_0.1-do_0.0-sd_0.0",
}
_1K_TAGS = (
    ("S_16", "aug_medium2-wd_0.1-do_0.0-sd_0.0"),
    ("B_32", "aug_medium2-wd_0.1-do_0.1-sd_0.1"),
    ("B_16", "aug_strong2-wd_0.1-do_0.1-sd_0.1"),
)
# The README's recommended files, fine-tuned at 384 pixels: top-1 on ImageNet.
_RECOMMENDED = (
    ("L_16", "aug_strong1-wd_0.1-do_0.0-sd_0.0", "0.01", 0.8559),
    ("B_16", "aug_medium1-wd_0.1-do_0.0-sd_0.0", "0.03", 0.8549),
    ("S_16", "aug_light1-wd_0.03-do_0.0-sd_0.0", "0.03", 0.8373),
    ("R50_L_32", "aug_medium1-wd_0.1-do_0.1-sd_0.1", "0.01", 0.8599),
    ("R26_S_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "0.01", 0.8385),
    ("Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03", 0.7822),
    ("B_32", "aug_light1-wd_0.1-do_0.0-sd_0.0", "0.01", 0.8359),
    ("S_32", "aug_none-wd_0.1-do_0.0-sd_0.0", "0.01", 0.7958),
    ("R_Ti_16", "aug_none-wd_0.03-do_0.0-sd_0.0", "0.03", 0.7540),
)


def _augreg(short: str, data: str, how: str, suffix: str, lr: str | None = None, size: int = 224, **more) -> Released:
    model, timm = AUGREG_MODELS[short]
    tuned = f"--imagenet2012-steps_20k-lr_{lr}-res_{size}" if lr else ""
    path = f"vit_models/augreg/{short}-{data}-300ep-lr_0.001-{how}{tuned}.npz"
    return Released(f"{timm}_{size}.{suffix}", model, path, 1000 if lr or data == "i1k" else 21843, size, **more)


def _published(short, how, lr, size):
    accuracies = [top for *row, top in _RECOMMENDED if (*row, 384) == (short, how, lr, size)]
    return {"accuracy": accuracies[0], "source": _README} if accuracies else {}


_AUGREG = (
    *(
        _augreg(short, "i21k", how, "augreg_in21k_ft_in1k", lr, size, **_published(short, how, lr, size))
        for short, size, how, lr in _21K_TAGS
    ),
    *(_augreg(short, "i21k", how, "augreg_in21k") for short, how in _UPSTREAM_TAGS.items()),
    *(_augreg(short, "i1k", how, "augreg_in1k", "0.01", size) for short, how in _1K_TAGS for size in (224, 384)),
)
_TAGGED = {row.path for row in _AUGREG}
_BEST = tuple(
    row
    for short, how, lr, top in _RECOMMENDED
    for row in (
        _augreg(short, "i21k", how, "augreg_recommended_in21k_ft_in1k", lr, 384, accuracy=top, source=_README),
        _augreg(short, "i21k", how, "augreg_recommended_in21k"),
    )
    if row.path not in _TAGGED
)

_BIT_SIZES = ("50x1", "50x3", "101x1", "101x3", "152x2", "152x4")
_BIT = (
    *(
        Released(f"resnetv2_{size}_bit.goog_{tag}", f"BiT_R{size}", f"bit_models/BiT-{name}.npz", classes, None)
        for size in _BIT_SIZES
        for name, tag, classes in (
            (f"M-R{size}", "in21k", 21843),
            (f"M-R{size}-ILSVRC2012", "in21k_ft_in1k", 1000),
            (f"S-R{size}", "in1k", 1000),
            (f"S-R{size}-ILSVRC2012", "in1k_ft_in1k", 1000),
        )
    ),
    Released("resnetv2_50x1_bit.goog_distilled_in1k", "BiT_R50x1", "bit_models/distill/R50x1_224.npz", 1000, None),
    Released("resnetv2_50x1_bit.goog_distilled_in1k_160", "BiT_R50x1", "bit_models/distill/R50x1_160.npz", 1000, None),
)

RELEASED = _ORIGINAL + _AUGREG + _BEST + _BIT
