"""The table of names of EfficientNet in timm's files and in Keras's own. `weights/names.py` explains the signs.

The units of the first stage do not expand, so that timm counts their layers in another way.
"""

from keras_vit.weights.name_rows import Row, row_of_cells
from keras_vit.weights.transforms import SAME, TORCH_CONV, TORCH_DEPTHWISE, TRANSPOSED, Transform


def _conv(ours: str, timm: str, applications: str, transform: Transform = TORCH_CONV) -> Row:
    cells = {"timm": (f"{timm}.weight", transform), "applications": (f"{applications}/kernel", SAME)}
    return row_of_cells(f"{ours}/kernel", cells)


def _bias(ours: str, timm: str, applications: str) -> Row:
    return row_of_cells(
        f"{ours}/bias", {"timm": (f"{timm}.bias", SAME), "applications": (f"{applications}/bias", SAME)}
    )


def _norm(ours: str, timm: str, applications: str) -> tuple[Row, ...]:
    words = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
    return tuple(
        row_of_cells(
            f"{ours}/{mine}",
            {"timm": (f"{timm}.{theirs}", SAME), "applications": (f"{applications}/{mine}", SAME)},
        )
        for mine, theirs in words.items()
    )


def _unit(ours: str, timm: str, applications: str, project: str, norms: tuple[str, ...]) -> tuple[Row, ...]:
    """Make the rows of a unit that all units have; `project` and `norms` are timm's names of the last layers."""
    depthwise_norm, project_norm = norms
    return (
        _conv(f"{ours}depthwise", f"{timm}conv_dw", f"{applications}dwconv", TORCH_DEPTHWISE),
        *_norm(f"{ours}depthwise_norm", timm + depthwise_norm, f"{applications}bn"),
        *(
            make(ours + mine, f"{timm}se.conv_{theirs}", f"{applications}se_{theirs}")
            for mine, theirs in (("squeeze", "reduce"), ("excite", "expand"))
            for make in (_conv, _bias)
        ),
        _conv(f"{ours}project", timm + project, f"{applications}project_conv"),
        *_norm(f"{ours}project_norm", timm + project_norm, f"{applications}project_bn"),
    )


_OURS, _TIMM, _APPLICATIONS = "stage{s}_unit{u:02d}/", "blocks.{s0}.{u0}.", "block{s}_{u}_"
EFFICIENTNET = (
    _conv("root", "conv_stem", "stem_conv"),
    *_norm("root_norm", "bn1", "stem_bn"),
    *_unit("stage1_unit{u:02d}/", "blocks.0.{u0}.", "block1_{u}_", "conv_pw", ("bn1", "bn2")),
    _conv(f"{_OURS}expand", f"{_TIMM}conv_pw", f"{_APPLICATIONS}expand_conv"),
    *_norm(f"{_OURS}expand_norm", f"{_TIMM}bn1", f"{_APPLICATIONS}expand_bn"),
    *_unit(_OURS, _TIMM, _APPLICATIONS, "conv_pwl", ("bn2", "bn3")),
    _conv("last", "conv_head", "top_conv"),
    *_norm("norm", "bn2", "top_bn"),
    _conv("head", "classifier", "predictions", TRANSPOSED),
    _bias("head", "classifier", "predictions"),
)
