"""Options that say what a CSV table states for an image: classes in an order, probabilities, or numbers."""

from dataclasses import dataclass

OPTIONS = ("numbers", "probabilities", "order")


@dataclass(frozen=True)
class TableTargets:
    """What a table states.

    Args:
        kind: `classes`, `probabilities` or `numbers`, as `Data.targets`; `several` for several labels per image.
        columns: names of the columns of probabilities, numbers or several labels.
        order: names of ordered classes, the lowest first; () for classes without an order.
        note: why the table is read so, for people; empty where it could mean nothing else.
    """

    kind: str = "classes"
    columns: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    note: str = ""


CLASSES = TableTargets()


def add_table_options(sub) -> None:
    """Add the options to a verb's parser."""
    group = sub.add_argument_group("what a CSV file states, where its columns do not say so")
    group.add_argument("--numbers", metavar="COLUMNS", help="columns of numbers to predict, such as age,weight")
    group.add_argument(
        "--probabilities", metavar="COLUMNS", help="columns of probabilities of classes, such as cat,dog"
    )
    group.add_argument("--order", metavar="CLASSES", help="all classes in order, the lowest first: poor,fair,good")


def table_targets(options, source: str | None, argument: str = "FOLDER") -> TableTargets:
    """Return what the options say about a source, or without options what a CSV file states by its columns.

    Raises:
        FileNotFoundError: the CSV file does not exist.
        ValueError: more than one option is given, the source is no CSV file, a name is missing or repeated, or the
            columns of the CSV file are unclear.
    """
    given = [name for name in OPTIONS if getattr(options, name) is not None]
    if not given and (source or "").endswith(".csv"):
        from keras_vit.cli.table_kinds import targets_of

        return targets_of(source, argument)
    if not given:
        return CLASSES
    if len(given) > 1:
        raise ValueError(f"--{given[0]} expected no other of --{', --'.join(OPTIONS)}, received --{given[1]}.")
    name = given[0]
    names = tuple(part.strip() for part in getattr(options, name).split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"--{name} expected distinct names separated by commas, received {getattr(options, name)!r}.")
    if (source or "").endswith(".csv"):
        _require_fit(name, names, source, argument)
    if name == "order":
        return TableTargets(order=names)
    if not (source or "").endswith(".csv"):
        raise ValueError(f"--{name} expected a CSV file, which has columns, received {source!r}.")
    return TableTargets(name, names)


def _require_fit(option: str, names: tuple[str, ...], source: str, argument: str) -> None:
    """Raise a ValueError if the columns of a table are of another kind than an option states."""
    from keras_vit.cli.table_kinds import targets_of

    try:
        found = targets_of(source, argument)
    except ValueError:  # the option says what the columns do not
        return
    other = found.kind == "several" and (option == "probabilities" or "labels" in names)
    if other or option == "order" and found.kind != "classes" and found.columns != ("label",):
        raise ValueError(f"--{option} expected a table of other targets, received {source!r}: {found.note}; without "
                         f"--{option} it is read so.")  # fmt: skip
