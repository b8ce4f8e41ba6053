"""The command `keras-vit list`."""


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("list", run, "List the models.", "list 'ViT_B*'")
    sub.add_argument("glob", nargs="?", default="*", help="shell pattern of names")
    sub.add_argument("--markdown", action="store_true", help="print all models as the tables of docs/zoo.md")


def run(options) -> None:
    """Print the models whose names match."""
    from keras_vit.models.variants import find_variant, list_models
    from keras_vit.models.variants.describe import describe_variant, variants_table

    if options.markdown:
        print(variants_table())
        return
    for name in list_models(options.glob):
        row, _ = find_variant(name)
        counts = f"{row.parameters.classes_1000:>13,} parameters"
        print(f"{name:<12} {row.paper_name:<13} {counts}  {describe_variant(row)}")
