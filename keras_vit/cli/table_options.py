"""Options that say what a CSV table states for an image: classes in an order, probabilities, or numbers."""

from dataclasses import dataclass

OPTIONS = ("numbers", "probabilities", "order")


@dataclass(frozen=True)
class TableTargets:
    """What a table states.

    Args:
        kind: `classes`, `probabilities` or `numbers`, as `Data.targets`.
        columns: names of the columns of probabilities or numbers.
        order: names of ordered classes, the lowest first; () for classes without an order.
    """

    kind: str = "classes"
    columns: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


CLASSES = TableTargets()


def add_table_options(sub) -> None:
    """Add the options to a verb's parser."""
    group = sub.add_argument_group("what a CSV file states, if not one class per image")
    group.add_argument("--numbers", metavar="COLUMNS", help="columns of numbers to predict, such as age,weight")
    group.add_argument(
        "--probabilities", metavar="COLUMNS", help="columns of probabilities of classes, such as cat,dog"
    )
    group.add_argument("--order", metavar="CLASSES", help="all classes in order, the lowest first: poor,fair,good")


def table_targets(options, source: str | None) -> TableTargets:
    """Return what the options say about a source.

    Raises:
        ValueError: more than one option is given, the source is no CSV file, or a name is missing or repeated.
    """
    given = [name for name in OPTIONS if getattr(options, name) is not None]
    if not given:
        return CLASSES
    if len(given) > 1:
        raise ValueError(f"--{given[0]} expected no other of --{', --'.join(OPTIONS)}, received --{given[1]}.")
    name = given[0]
    names = tuple(part.strip() for part in getattr(options, name).split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"--{name} expected distinct names separated by commas, received {getattr(options, name)!r}.")
    if name == "order":
        return TableTargets(order=names)
    if not (source or "").endswith(".csv"):
        raise ValueError(f"--{name} expected a CSV file, which has columns, received {source!r}.")
    return TableTargets(name, names)
