"""Report what was loaded from a file of weights, and refuse files that do not fit."""

import re
from collections import Counter
from dataclasses import dataclass, field

from keras_vit.weights.layouts import OPTIONAL, WRAPPERS


@dataclass(frozen=True)
class Report:
    """The result of loading a file, as names of its arrays. `missing` holds names of the model's variables."""

    source: str
    layout: str
    used: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)  # parts of other models in the file
    unused_top: list[str] = field(default_factory=list)  # a classifier that the model does not have
    conversions: list[str] = field(default_factory=list)  # one sentence per change to the values
    notes: list[str] = field(default_factory=list)  # differences between the model and the file's origin

    def __str__(self):
        groups = ("resized", "missing", "left_over", "aside", "unused_top", "conversions", "notes")
        lists = [f"{name}: {', '.join(getattr(self, name))}" for name in groups if getattr(self, name)]
        return f"{self.source} ({self.layout}): {'; '.join([f'{len(self.used)} arrays used', *lists])}"

    @property
    def sentences(self) -> list[str]:
        """Return the sentences to print: conversions, ignored arrays, missing variables and notes."""
        unused = (*self.left_over, *self.aside)
        counts = Counter(_part(name) for name in unused)
        ignored = ", ".join(f"{name} ({count} arrays)" if count > 1 else name for name, count in counts.items())
        sentences = [*self.conversions]
        if ignored:
            sentences.append(f"ignored arrays of the file: {ignored}")
        if self.missing:
            sentences.append(f"not in the file, so they keep their initial values: {', '.join(self.missing)}")
        return [*sentences, *self.notes]

    def require_fit(self, misfits: list[tuple], strict: bool, optional_variables: tuple[str, ...]) -> None:
        """Raise a ValueError if arrays have another shape, are missing or are left over.

        Args:
            misfits: (name, expected shape, received shape) of arrays.
            strict: whether every array of the file must be used.
            optional_variables: prefixes of variables that may be missing from the file.
        """
        shapes = [f"{name} (expected {expected}, received {received})" for name, expected, received in misfits]
        missing = [path for path in self.missing if not path.startswith(optional_variables)]
        left_over = [name for name in self.left_over if strict or not OPTIONAL.match(name)]
        problems = {"of another shape": shapes, "missing from the file": missing, "left over in the file": left_over}
        sentences = [f"{problem}: {', '.join(names)}" for problem, names in problems.items() if names]
        if sentences:
            rule = "" if strict else "; strict=False ignores only heads, decoders and training state"
            raise ValueError(f"source {self.source!r} does not fit the model; {'; '.join(sentences)}{rule}.")


def _part(name: str) -> str:
    """Return the first component of a name without the prefixes of wrappers."""
    wrapper = WRAPPERS.match(name)
    return re.split(r"[./]", name[wrapper.end() if wrapper else 0 :].removeprefix("params/"))[0]
