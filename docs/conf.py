"""The documentation site; `make docs` builds it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import requests
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
    "addresses",
    "api",
    "mathml",
    "reference",
]
exclude_patterns = ["_build", "_ext"]

html_theme = "furo"
html_title = "unionsnn"
html_favicon = html_logo = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Furo's own underlines imported modules, as if they were links.
pygments_dark_style = "github-dark"
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

# The inventories of other projects need the network; without it, or where one does not answer, its
# names are plain text.
PROJECTS = {
    "lightning": "https://lightning.ai/docs/pytorch/stable/",
    "optuna": "https://optuna.readthedocs.io/en/stable/",
    "pyg": "https://pytorch-geometric.readthedocs.io/en/latest/",
    "python": "https://docs.python.org/3/",
    "torch": "https://docs.pytorch.org/docs/stable/",
}


def _answers(address: str) -> bool:
    try:
        requests.head(f"{address}objects.inv", timeout=20, allow_redirects=True).raise_for_status()
    except requests.RequestException as error:
        print(f"Names of {address} are plain text: {error}", file=sys.stderr)
        return False
    return True


if os.environ.get("UNIONSNN_DOCS_ONLINE"):
    intersphinx_mapping = {k: (v, None) for k, v in PROJECTS.items() if _answers(v)}

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


FORMULAS = {
    r"\|E_S\| / (\|V_S\| · \|V_S - 1\|) · \|V_S\|^λ (eq. 8), λ the exponent": (
        r"$\frac{\left\lvert E_S \right\rvert}"
        r"{\left\lvert V_S \right\rvert \cdot \left\lvert V_S - 1 \right\rvert}"
        r" \left\lvert V_S \right\rvert^\lambda$ (eq. 8), $\lambda$ the exponent"
    ),
    "Σ over unordered pairs {s, t} of σ_st(v, u) / σ_st in S (eq. 7)": (
        r"$\sum_{\{s, t\}} \frac{\sigma_{st}(v, u)}{\sigma_{st}}$ over unordered pairs in S (eq. 7)"
    ),
    "matrix P, P_ij the length": "matrix $P$, $P_{ij}$ the length",
    "matrix L = D - A of S": "matrix $L = D - A$ of S",
    "1 - W1(μ_v, μ_u)": r"$1 - W_1(\mu_v, \mu_u)$",
    "Σ σ_i, the sum": r"$\sum_i \sigma_i$, the sum",
    "| B_v ∪ B_u |": r"| $B_v \cup B_u$ |",
    "| B_v ∩ B_u |": r"| $B_v \cap B_u$ |",
    "| S_v ∪ S_u |": r"| $S_v \cup S_u$ |",
    "| S_v ∩ S_u |": r"| $S_v \cap S_u$ |",
    r"| \|V_S\| |": r"| $\left\lvert V_S \right\rvert$ |",
    r"| \|E_S\| |": r"| $\left\lvert E_S \right\rvert$ |",
    "D_ii = 2": "$D_{ii} = 2$",
}
"""Cells of the tables in coefficients.md, which a terminal prints too, and their equations here."""

FILE_AS_TEXT = re.compile(r"\[[\w./-]+\.md\](\((?!http)[^)]+\.md(?:#[^)]*)?\))")
"""A link whose text is the name of a file; without a text, it gets the title of the page."""


def _own_links(*event: object) -> None:
    (source,) = (given for given in event if isinstance(given, list))
    for link, here in {**LINKS, **(FORMULAS if "coefficients" in event else {})}.items():
        source[0] = source[0].replace(link, here)
    source[0] = FILE_AS_TEXT.sub(r"[]\1", source[0])
    # A value stays on one line with its deviation.
    source[0] = re.sub(r"(?<=\d) ± (?=\d)", "\u00a0±\u00a0", source[0])


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
