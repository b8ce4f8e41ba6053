"""Arrays of a file that hold several variables, as one name per variable.

`name[3]` is entry 3 of an array that stacks the blocks, `name[:,3]` of one that stacks them on axis 1, and
`name[3:5]` or `name[:,3:5]` a part of an axis. `name[|1]` is
the second third of the first axis, as torch's attention stores query, key and value. `name[=3]` is the array itself,
for block 3 of the blocks that share it.
"""

import re

import numpy as np

_VIEW = re.compile(r"^(.*)\[([:|=],?)?(\d+)(?::(\d+))?\]$")
_THIRDS = re.compile(r"(^|\.)head\.attention\.in_proj_(weight|bias)$")
_SHARED = re.compile(r"(^|\.)(encoder\.relative_position_bias|rel_pos_bias)\.relative_position_bias_table$")
_BLOCK = re.compile(r"(?:^|\.)(?:blocks|layer)\.(\d{1,3})\.")


def plain_name(name: str) -> str:
    """Return the name of the array of a view, else the name itself."""
    match = _VIEW.match(name)
    return match[1] if match else name


def view_of(name: str):
    """Return the name of the array, and the function that takes the view from it; None without a view."""
    match = _VIEW.match(name)
    if not match:
        return name, None
    kind, index = match[2], int(match[3])
    index = slice(index, int(match[4])) if match[4] else index
    views = {
        None: lambda array: array[index],
        ":,": lambda array: array[:, index],
        "|": lambda array: np.split(array, 3)[index],
        "=": lambda array: array,
    }
    return match[1], views[kind]


def with_views(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's arrays, with views instead of the arrays that hold parts of several variables.

    Register tokens of length 0, which transformers' DINOv3 without registers has, are left out.
    """
    blocks = sorted({int(match[1]) for name in shapes if (match := _BLOCK.search(name))})
    found = {}
    for name, shape in shapes.items():
        if _THIRDS.search(name) and shape and shape[0] % 3 == 0:
            found |= {f"{name}[|{n}]": (shape[0] // 3, *shape[1:]) for n in range(3)}
        elif _SHARED.search(name) and blocks:
            found |= {f"{name}[={i}]": shape for i in blocks}
        elif not (name.endswith("register_tokens") and 0 in shape):
            found[name] = shape
    return found
