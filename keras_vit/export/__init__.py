"""Export a Keras model to files for production, and compare each file with the model.

The names are imported on first use: `keras-vit predict` reads the table of formats without TensorFlow.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_vit.export.origin import Origin as Origin
    from keras_vit.export.origin import origin_of as origin_of
    from keras_vit.export.report import ExportReport as ExportReport
    from keras_vit.export.write import export as export
else:
    _MODULES = {"Origin": "origin", "origin_of": "origin", "ExportReport": "report", "export": "write"}

    def __getattr__(name: str):
        import importlib

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
