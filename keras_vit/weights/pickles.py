"""Read pickles as plain data, without importing or calling anything.

Torch's files are pickles, which can run any code when unpickled. Here, names in `ALLOWED` become plain values or an
unused `Inert`. Any other name is refused.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field

_BUILTINS = "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple"
_PATHS = "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"
_ARRAYS = "_reconstruct scalar"
# Names in published checkpoints, by module: tensors, state dicts, and arguments of training scripts.
_ALLOWED = {
    "torch": "FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage ShortStorage CharStorage "
    "ByteStorage BoolStorage Size Tensor device float16 float32 float64 bfloat16 uint8 uint16 uint32 uint64 int8 int16 "
    "int32 int64 bool complex64 complex128 float8_e4m3fn float8_e5m2",
    "torch._utils": "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
    "_rebuild_parameter_with_state",
    "torch._tensor": "Tensor _rebuild_from_type_v2",
    "torch.nn.parameter": "Buffer Parameter",
    "torch.serialization": "_get_layout",
    "torch.storage": "UntypedStorage",
    "builtins": _BUILTINS,
    "__builtin__": _BUILTINS,
    "collections": "Counter OrderedDict defaultdict",
    "copyreg": "_reconstructor",
    "copy_reg": "_reconstructor",
    "_codecs": "encode",
    "numpy": "dtype ndarray",
    "numpy.core.multiarray": _ARRAYS,
    "numpy._core.multiarray": _ARRAYS,
    "pathlib": _PATHS,
    "pathlib._local": _PATHS,
    "datetime": "date datetime timedelta timezone",
    "argparse": "Namespace",
    "types": "SimpleNamespace",
    "addict.addict": "Dict",
    "easydict": "EasyDict",
    "yacs.config": "CfgNode",
}
ALLOWED = frozenset(f"{module} {name}" for module, names in _ALLOWED.items() for name in names.split())


class Unknown(ValueError):
    """Raised for a name in a pickle that is not allowed."""


@dataclass(frozen=True)
class Name:
    """A class or function in a pickle, as `module name`."""

    full: str


@dataclass(eq=False)
class Inert:
    """An instance of an allowed class that weights do not need."""

    kind: Name
    arguments: tuple = ()
    state: list = field(default_factory=list)


@dataclass(eq=False)
class Tensor:
    """A tensor in a pickle. Offset and strides count values."""

    storage: object
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None = None  # None means the storage's dtype


def read_pickle(file, persistent: Callable[[object], object]):
    """Read one pickle as plain data.

    Args:
        file: bytes, or a binary file, which is positioned after the pickle.
        persistent: a function that returns the value of a persistent id, by which torch references storages.

    Raises:
        Unknown: a name in the pickle is not in `ALLOWED`; the message is `module.name`.
        ValueError: the file is no pickle of plain data. Damaged pickles raise other errors, too.
    """
    machine = _Machine(persistent)
    for operation, argument, _ in pickletools.genops(file):
        getattr(machine, f"on_{operation.name.lower()}", machine.on_unknown)(argument)
    return machine.stack.pop()


_MARK = object()


class _Machine:
    """The stack machine of pickles, with a method for each operation of plain data."""

    def __init__(self, persistent):
        self.stack, self.memo, self.persistent = [], {}, persistent

    def on_unknown(self, argument):
        raise ValueError("a pickle of plain data has no such operation")

    def on_proto(self, argument):
        pass

    on_frame = on_stop = on_proto

    def on_int(self, value):
        self.stack.append(value)

    on_binint = on_binint1 = on_binint2 = on_long = on_long1 = on_long4 = on_float = on_binfloat = on_int
    on_string = on_binstring = on_short_binstring = on_unicode = on_binunicode = on_short_binunicode = on_int
    on_binunicode8 = on_binbytes = on_short_binbytes = on_binbytes8 = on_bytearray8 = on_int

    def on_none(self, _):
        self.stack.append(None)

    def on_newtrue(self, _):
        self.stack.append(True)

    def on_newfalse(self, _):
        self.stack.append(False)

    def on_empty_list(self, _):
        self.stack.append([])

    def on_empty_tuple(self, _):
        self.stack.append(())

    def on_empty_dict(self, _):
        self.stack.append({})

    def on_empty_set(self, _):
        self.stack.append(set())

    def on_mark(self, _):
        self.stack.append(_MARK)

    def _marked(self) -> list:
        """Pop the values above the last mark."""
        values = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _last(self, count: int) -> list:
        values = [self.stack.pop() for _ in range(count)][::-1]
        if any(value is _MARK for value in values):
            raise ValueError("a mark stands where a value is expected")
        return values

    def on_list(self, _):
        self.stack.append(self._marked())

    def on_tuple(self, _):
        self.stack.append(tuple(self._marked()))

    def on_tuple1(self, _):
        self.stack.append(tuple(self._last(1)))

    def on_tuple2(self, _):
        self.stack.append(tuple(self._last(2)))

    def on_tuple3(self, _):
        self.stack.append(tuple(self._last(3)))

    def on_frozenset(self, _):
        self.stack.append(frozenset(self._marked()))

    def on_dict(self, _):
        values = self._marked()
        self.stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def on_append(self, _):
        self._extend(self._last(1))

    def on_appends(self, _):
        self._extend(self._marked())

    on_additems = on_appends

    def _extend(self, values):
        target = self.stack[-1]
        if isinstance(target, Inert):
            target.state.append(values)
        elif isinstance(target, set):
            target.update(values)
        elif isinstance(target, list):
            target.extend(values)
        else:
            raise ValueError("items are added to no list")

    def on_setitem(self, _):
        self._update(self._last(2))

    def on_setitems(self, _):
        self._update(self._marked())

    def _update(self, values):
        target = self.stack[-1]
        pairs = dict(zip(values[::2], values[1::2], strict=True))
        if isinstance(target, Inert):
            target.state.append(pairs)
        elif isinstance(target, dict):
            target.update(pairs)
        else:
            raise ValueError("items are set in no dict")

    def on_pop(self, _):
        self.stack.pop()

    def on_pop_mark(self, _):
        self._marked()

    def on_dup(self, _):
        self.stack.append(self.stack[-1])

    def on_put(self, index):
        self.memo[index] = self.stack[-1]

    on_binput = on_long_binput = on_put

    def on_memoize(self, _):
        self.memo[len(self.memo)] = self.stack[-1]

    def on_get(self, index):
        self.stack.append(self.memo[index])

    on_binget = on_long_binget = on_get

    def on_global(self, name):
        if name not in ALLOWED:
            raise Unknown(name.replace(" ", "."))
        self.stack.append(Name(name))

    def on_stack_global(self, _):
        self.on_global(" ".join(self._last(2)))

    def on_binpersid(self, _):
        self.stack.append(self.persistent(self.stack.pop()))

    def on_reduce(self, _):
        name, arguments = self._last(2)
        self.stack.append(_made(name, arguments))

    on_newobj = on_reduce

    def on_newobj_ex(self, _):
        name, arguments, keywords = self._last(3)
        self.stack.append(Inert(name, (*arguments, keywords)))

    def on_build(self, _):
        (state,) = self._last(1)
        if isinstance(self.stack[-1], Inert):
            self.stack[-1].state.append(state)  # attributes of other values are ignored


def _made(name, arguments: tuple):
    """Return the plain value of a call in a pickle."""
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise ValueError("a pickle calls what is no name")
    function = name.full.rpartition(" ")[2]
    if function == "_rebuild_from_type_v2":  # (function, type, arguments, attributes)
        return _made(arguments[0], arguments[2])
    if function.startswith("_rebuild_parameter"):
        return arguments[0]
    if function.startswith("_rebuild_tensor"):
        return _tensor(*arguments)
    if function == "_reconstructor":  # (class, base, state), of protocols 0 and 1
        return Inert(arguments[0])
    if name.full.startswith("collections "):
        return dict(arguments[0]) if arguments and isinstance(arguments[0], dict | list) else {}
    if function == "Size":
        return tuple(arguments[0])
    return Inert(name, arguments)


def _tensor(storage, offset, shape, strides, *more) -> Tensor:
    dtype = (
        more[2].full.replace(" ", ".") if len(more) > 2 and isinstance(more[2], Name) else None
    )  # of `_rebuild_tensor_v3`
    counts = (offset, *shape, *strides)
    if not all(type(count) is int and count >= 0 for count in counts) or len(shape) != len(strides):
        raise ValueError("a tensor's sizes are not whole numbers")
    return Tensor(storage, offset, tuple(shape), tuple(strides), dtype)
