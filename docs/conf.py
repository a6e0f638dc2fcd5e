"""Sphinx builds these pages: `make docs` strictly, `make docs-serve` to look at them."""

import os
import sys
from pathlib import Path

from stragglers._core.version import __version__

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
# Tutorials call `stragglers`, which lies beside the interpreter that builds them.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["JAX_PLATFORMS"] = "cpu"

project = "stragglers"
author = "The stragglers authors"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.extensions.mathml",
    "docs.extensions.generated",
]
exclude_patterns = ["_build", "extensions"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of JAX, NumPy and optax, documented elsewhere
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_in_temp = True  # tutorials write files
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_ipywidgets_js = {}  # which would be loaded from another host
nb_merge_streams = True

default_role = "code"  # of single backticks in docstrings
highlight_language = "none"  # of blocks without one, such as equations
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes are described once, in their class
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "pydata_sphinx_theme"
html_title = "stragglers"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
