"""The command `keras-vit new RECIPE.py`. new_data.py reads the data, new_recipe.py writes the text."""

import datetime
import shlex
from pathlib import Path

from keras_vit.cli.output import Result
from keras_vit.cli.table_options import add_table_options, table_targets


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb(
        "new", run, "Write a commented recipe for a folder of images or a data set.", "new photos.py --data photos"
    )
    sub.add_argument("file", metavar="RECIPE.py", help="the file to write, which must not exist")
    sub.add_argument(
        "--data",
        metavar="SOURCE",
        help="a folder of images, a CSV file, or tfds:NAME; scikit-learn's handwritten digits by default",
    )
    sub.add_argument("--data-dir", metavar="FOLDER", help="folder of TensorFlow Datasets, with --data tfds:NAME")
    sub.add_argument(
        "--model",
        help="a model's name, which begins with random weights, or a tag or file of published weights to fine-tune "
        "(default vit_small_patch16_224.augreg_in21k; ViT_Ti16 for digits)",
    )
    add_table_options(sub)


def run(options) -> Result:
    """Read the data, write the recipe and return the command that trains it."""
    from keras_vit.models.model_names import find_named

    path = Path(options.file)
    if path.suffix != ".py" or not path.parent.is_dir():
        raise ValueError(f"RECIPE.py expected a name ending in .py in a folder that exists, received {options.file!r}.")
    if path.exists():
        raise ValueError(f"RECIPE.py expected a new file, received {options.file!r}, which exists; choose another.")
    if options.data_dir and not (options.data or "").startswith("tfds:"):
        raise ValueError("--data-dir expected --data tfds:NAME; pass the folder of images itself as --data.")
    if options.model and not Path(options.model).exists():
        find_named(options.model)  # raises an error before the data is read
    from keras_vit.cli.new_data import facts_of
    from keras_vit.cli.new_model import model_facts
    from keras_vit.cli.new_recipe import recipe_text
    from keras_vit.cli.plan import fixed_plan
    from keras_vit.train.recipe.file import load_recipe

    data = facts_of(options.data, options.data_dir, table_targets(options, options.data, "--data"))
    model = model_facts(options.model, data)
    command = ("train", options.file, "--workdir", str(Path("runs") / path.stem))
    plan = fixed_plan(data, model.fine_tuned)
    text = recipe_text(path.stem, data, model, plan, f"keras-vit {shlex.join(command)}", f"{datetime.date.today()}")
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    recipe = load_recipe(path)
    found = {
        "recipe": options.file,
        "model": model.name,
        "image_size": model.image_size,
        "classes": list(data.labels),
        "train_examples": data.train,
        "test_examples": data.test,
        "broken_files": data.broken,
        "batch_size": recipe.data.batch_size,
    }
    numbers = data.targets.kind == "numbers"
    what = f"values of {', '.join(data.labels)}" if numbers else f"{len(data.labels):,} classes"
    lines = [f"wrote {options.file}: {model.name} with images of {model.image_size} pixels, {what}, {data.train:,} "
             f"training and {data.test:,} test images"]  # fmt: skip
    lines += [data.targets.note] if data.targets.note else []
    if data.broken:
        lines.append(
            f"files that cannot be read: {data.broken:,}; `keras-vit check {shlex.quote(options.data)}` lists them"
        )
    if data.too_many:
        lines.append("training leaves out at most three of a split, or 1 %: repair or remove some of these files first")
        command = ("check", options.data)
    return Result(found, "\n".join(lines), command)
