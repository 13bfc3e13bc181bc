"""The documentation site; `make docs` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from unionsnn import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "unionsnn"
author = "The unionsnn authors"
copyright = "The unionsnn authors"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "reference",
]
exclude_patterns = ["_build", "_ext"]

html_theme = "furo"
html_title = "unionsnn"
html_favicon = html_logo = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"

# Quotation marks, not dashes: two hyphens begin an option.
smartquotes_action = "qe"
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_output_stderr = "remove"

autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True, "show-inheritance": True}
# PyTorch's documentation of its own methods is its own.
autodoc_inherit_docstrings = False
napoleon_custom_sections = ["Shapes", "Limits"]
python_use_unqualified_type_names = True

# The inventories of other projects need the network; without it their names are plain text.
if os.environ.get("UNIONSNN_DOCS_ONLINE"):
    intersphinx_mapping = {
        "lightning": ("https://lightning.ai/docs/pytorch/stable/", None),
        "optuna": ("https://optuna.readthedocs.io/en/stable/", None),
        "pyg": ("https://pytorch-geometric.readthedocs.io/en/latest/", None),
        "python": ("https://docs.python.org/3/", None),
        "torch": ("https://docs.pytorch.org/docs/stable/", None),
    }

LINKS = {
    "(../benchmarks/RESULTS.md": "(measurements.md",
    "(../benchmarks/records)": "(generated/leaderboards.md)",
    "(../benchmarks/records/brec)": "(expressivity.md)",
    "(tests/cost/steps.md)": "(step_costs.md)",
    "(../tests/cost/steps.md)": "(step_costs.md)",
    "(../README.md": "(index.md",
    "(../CONTRIBUTING.md": "(contributing.md",
    "(../CHANGELOG.md": "(changelog.md",
}
"""Links that lead out of this folder, as they are read in the repository, and their pages here."""


FILE_AS_TEXT = re.compile(r"\[[\w./-]+\.md\](\((?!http)[^)]+\.md(?:#[^)]*)?\))")
"""A link whose text is the name of a file; without a text, it gets the title of the page."""


def _own_links(*event: object) -> None:
    (source,) = (given for given in event if isinstance(given, list))
    for link, here in LINKS.items():
        source[0] = source[0].replace(link, here)
    source[0] = FILE_AS_TEXT.sub(r"[]\1", source[0])


def _dashes(app: Sphinx, doctree: nodes.document) -> None:
    """Set the dash between a parameter and its text, which Sphinx writes as two hyphens."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> None:
    """Let links that leave the folder lead to pages of the site."""
    app.connect("doctree-read", _dashes)
    app.connect("source-read", _own_links)
    app.connect("include-read", _own_links)
