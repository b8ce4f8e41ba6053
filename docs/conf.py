"""Sphinx's settings. `make docs` writes the sources by `python -m codegen.site`, then builds them."""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # the clone, from build/docs/source

import keras_vit

# The guides' kernels import the clone, too, and draw no progress bars, which a page cannot update.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))
os.environ["TQDM_DISABLE"] = "1"

project = "keras_vit"
release = keras_vit.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxarg.ext"]
exclude_patterns = ["**.ipynb"]  # downloads, which the guides link to

html_theme = "furo"
html_title = "keras_vit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("sortable.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False

default_role = "py:obj"  # `Name` in a docstring links to the name's page where there is one
add_module_names = False
autodoc_typehints = "none"  # the signatures show them
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False

suppress_warnings = ["myst.domains"]  # sphinx-argparse's domain does not resolve links of Markdown
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600  # seconds per cell; guides are planned for far less
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # TensorFlow's lines and progress; a cell with a message of the package shows its own
nb_render_markdown_format = "myst"  # tables in outputs


def escape_markup(app, what, name, obj, options, lines):
    """Escape characters outside code that reStructuredText would read as markup."""
    for number, line in enumerate(lines):
        parts = re.split(r"(``.*?``|`.*?`)", line)
        lines[number] = "".join(p if p.startswith("`") else re.sub(r"(?<!^)(?<!\*)\*|\|", r"\\\g<0>", p) for p in parts)


def setup(app):
    """Register the hooks."""
    app.connect("autodoc-process-docstring", escape_markup, priority=400)
