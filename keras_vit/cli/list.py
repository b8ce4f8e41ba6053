"""The command `keras-vit list`."""

from keras_vit.cli.output import Result
from keras_vit.cli.table import table_lines, terminal_width


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("list", run, "List the models.", "list 'ViT_B*'")
    sub.add_argument("glob", nargs="?", default="*", help="shell pattern of names")
    sub.add_argument("--markdown", action="store_true", help="print all models as the tables of docs/zoo.md")


def run(options) -> Result:
    """Return the models whose names match."""
    from keras_vit.models.variants import find_variant, list_models
    from keras_vit.models.variants.describe import describe_variant, variants_table

    names = list_models(options.glob)
    rows = {name: find_variant(name)[0] for name in names}
    data = [
        {"name": name, "paper_name": row.paper_name, "parameters": row.parameters.classes_1000}
        | {"description": describe_variant(row)}
        for name, row in rows.items()
    ]
    following = ("summary", names[0]) if names else ()
    if options.markdown:
        return Result(data, variants_table(), following)
    cells = [("name", "parameters", "description")]
    cells += [(row["name"], f"{row['parameters']:,}", f"{row['paper_name']}: {row['description']}") for row in data]
    return Result(data, "\n".join(table_lines(cells, {1}, terminal_width())), following)
