"""The command `keras-vit weights find|info|show|download|convert`."""

import argparse
import re

from keras_vit.cli.output import Result, add_output_options
from keras_vit.cli.weights_find import find_verb, info_verb
from keras_vit.weights.contents import read_contents
from keras_vit.weights.download import download_published, locate
from keras_vit.weights.files import open_weights
from keras_vit.weights.image_configs import read_spec
from keras_vit.weights.timm_checkpoints import FAMILIES
from keras_vit.weights.unsupported import unsupported
from keras_vit.weights.write import save_weights


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    summary = "Find, show, download and convert published weights."
    example = "weights find --model B_16 --res 384 --under 100M --sort accuracy"
    parser = verb("weights", None, summary, example, has_result=False)
    verbs = parser.add_subparsers(dest="weights_verb", required=True, metavar="VERB")

    def weights_verb(name, run, summary, example):
        sub = verbs.add_parser(name, help=summary, description=summary, epilog=f"example: keras-vit weights {example}")
        sub.set_defaults(run=run)
        add_output_options(sub)
        return sub

    sub = weights_verb("find", find_verb, "List published checkpoints.", "find --model B_16 --res 384 --under 100M")
    sub.add_argument("words", nargs="*", metavar="WORD", help="parts of the name, such as dinov2 or ft_in1k")
    sub.add_argument("--family", help=f"vit, {', '.join(FAMILIES)}, msn, data2vec")
    sub.add_argument("--licence", help="apache-2.0, mit, cc-by-nc-4.0, ...")
    sub.add_argument("--loads", action="store_true", help="leave out checkpoints that from_pretrained refuses")
    sub.add_argument("--model", help="B_16, ViT_B16, vit_base_patch16, ...")
    sub.add_argument("--res", type=int, metavar="PIXELS", help="image size")
    sub.add_argument("--under", type=_count, metavar="N", help="fewer parameters than 100M, 5_000_000, ...")
    sub.add_argument(
        "--dataset", help="data set of the classifier, or all (default imagenet2012; all with WORD or --family)"
    )
    sub.add_argument("--sort", default="accuracy", help="accuracy, parameters, resolution or tag (default accuracy)")
    sub.add_argument("--index", help="augreg's index.csv with 50,000 more files; by default the downloaded one")
    sub.add_argument("--limit", type=int, default=20, help="number of lines to print (default 20)")

    sub = weights_verb(
        "info", info_verb, "Show what is published about a checkpoint.", "info deit_base_patch16_224.fb_in1k"
    )
    sub.add_argument("name", metavar="NAME", help="a tag, an official name, hf://ORG/NAME, or a URL of the catalogue")
    sub.add_argument("--index", help="augreg's index.csv; by default the downloaded one")

    sub = weights_verb("show", _show, "Show the contents of a file.", "show ViT-B_16.npz")
    sub.add_argument("file", metavar="FILE", help="a file or folder of weights, or a tag")

    sub = weights_verb(
        "download", _download, "Download a published checkpoint.", "download vit_base_patch16_224.augreg_in21k"
    )
    sub.add_argument(
        "tag", metavar="TAG", help="a tag, an official name, hf://ORG/NAME, a URL, or augreg/index for the index"
    )
    sub.add_argument("--to", metavar="DIR", help="folder for the file; by default the cache")

    sub = weights_verb(
        "convert", _convert, "Write weights in another layout.", "convert ViT-B_16.npz vit-b-16 --layout hf"
    )
    sub.add_argument("source", metavar="IN", help="a file or folder of weights, or a tag")
    sub.add_argument("target", metavar="OUT", help="ends in .npz, .safetensors or .keras, or is a folder")
    sub.add_argument(
        "--layout", help="npz, linen, timm, hf or keras_hub; by default npz for .npz and Keras's own for .keras"
    )
    sub.add_argument("--num-heads", type=int, help="number of attention heads, if the file does not state it")
    sub.add_argument("--source-grid", type=_grid, metavar="DOWNxACROSS", help="grid of patches, if it is not square")


def _count(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text.replace("_", "").replace(",", ""))
    if not match:
        raise argparse.ArgumentTypeError(f"expected a number such as 100M, received {text!r}")
    return int(float(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]])


def _grid(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected DOWNxACROSS such as 14x21, received {text!r}")
    return int(match[1]), int(match[2])


def _show(options):
    with open_weights(options.file) as file:
        contents = read_contents(file, allow_unsupported=True)
        total = sum(_size(shape) for shape in file.shapes.values())
        spec, lacking = read_spec(file, contents.layout.name), dict(unsupported(file, contents.used))
        count = len(file.shapes)
    others = {"unexpected": list(contents.left_over), "ignored": [*contents.ignored, *contents.aside]}
    entries = contents.entries.items()
    variables = {path: {"shape": list(entry.shape), "names": list(entry.names)} for path, entry in entries}
    data = {"source": str(contents.source), "layout": contents.layout.name, "arrays": count, "values": total,
            "preprocessing": str(spec) if spec else None, "variables": variables, **others,
            "not_supported": lacking}  # fmt: skip
    lines = [f"{contents.source}: layout {contents.layout.name!r}, {count} arrays, {total:,} values"]
    lines.append(f"  images: {spec or 'unknown preprocessing'}")
    for path, entry in entries:
        lines.append(f"  {path:<44} {entry.shape!s:<20} {', '.join(entry.names)}")
    lines += [f"  {title}: {', '.join(names)}" for title, names in others.items() if names]
    lines += [f"  not supported: {name} ({sign})" for name, sign in lacking.items()]
    return Result(data, "\n".join(lines), () if lacking else ("predict", options.file, "IMAGE"))


def _size(shape):
    size = 1
    for side in shape:
        size *= side
    return size


def _download(options):
    path = str(download_published(options.tag, options.to))
    return Result({"tag": options.tag, "path": path}, path, ("weights", "show", path))


def _convert(options):
    locate(options.source)  # raises an error before Keras is imported
    from keras_vit.models.pretrained import from_pretrained

    model = from_pretrained(options.source, num_heads=options.num_heads, source_grid=options.source_grid)
    save_weights(model, options.target, options.layout)
    data = {"output": options.target, "parameters": model.count_params()}
    text = f"wrote {options.target}: {data['parameters']:,} parameters"
    return Result(data, text, ("weights", "show", options.target))
