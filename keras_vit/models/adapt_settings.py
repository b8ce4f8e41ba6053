"""The settings of parameter-efficient fine-tuning. Importing them needs no Keras."""

from dataclasses import dataclass

from keras_vit.checks import is_count, is_positive, require

RANKS = {"lora": 8, "adapter": 64, "vpt": 10, "ssf": None, "bitfit": None, "probe": None}  # default of each kind
PARTS = ("query", "key", "value", "out", "mlp")


@dataclass(frozen=True)
class Adapt:
    """Parameter-efficient fine-tuning: which few variables are trained in addition to the classifier.

    Args:
        kind: `lora` adds a product of two thin matrices to kernels (arXiv 2106.09685); `adapter` adds a bottleneck
            MLP parallel to each MLP (AdaptFormer, arXiv 2205.13535); `vpt` adds learned tokens to the input of each
            block (VPT-deep, arXiv 2203.12119); `ssf` scales and shifts the output of each dense layer and norm (arXiv
            2210.08823); `bitfit` trains the biases (arXiv 2106.10199); `probe` trains the classifier only.
        rank: rank of `lora` (8), width of the bottleneck of `adapter` (64), or number of tokens of `vpt` (10). None
            for these defaults; the other kinds have none.
        alpha: the product of `lora` is multiplied by alpha / rank; the rank if None.
        where: what `lora` adapts: any of `query`, `key`, `value`, `out` (the output of attention) and `mlp`. Query, key
            and value have separate matrices.

    Raises:
        ValueError: a field is out of range, or does not belong to the kind.
    """

    kind: str = "lora"
    rank: int | None = None
    alpha: float | None = None
    where: tuple[str, ...] = ("query", "value")

    def __post_init__(self):
        require(self.kind in RANKS, "kind", f"one of {', '.join(RANKS)}", self.kind)
        with_rank = ", ".join(kind for kind, rank in RANKS.items() if rank)
        require(self.rank is None or RANKS[self.kind], "rank", f"null with {self.kind!r}, which has none; {with_rank} "
                "have a rank", self.rank)  # fmt: skip
        require(self.rank is None or is_count(self.rank), "rank", "a positive int or null", self.rank)
        only = f"with {self.kind!r}; only 'lora' uses it"
        require(self.alpha is None or self.kind == "lora", "alpha", f"null {only}", self.alpha)
        require(self.alpha is None or is_positive(self.alpha), "alpha", "a positive number or null", self.alpha)
        known = isinstance(self.where, tuple) and self.where and set(self.where) <= set(PARTS)
        require(known, "where", f"some of {', '.join(PARTS)}", self.where)
        default = Adapt.__dataclass_fields__["where"].default
        require(self.where == default or self.kind == "lora", "where", f"{default} {only}", self.where)

    @property
    def size(self) -> int | None:
        """The rank, or the kind's default."""
        return RANKS[self.kind] if self.rank is None else self.rank
