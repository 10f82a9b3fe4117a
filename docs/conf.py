"""The configuration of the documentation, for ``make docs``.

Nothing is fetched from a network: formulas are MathML, figures are drawn at build time and embedded in the page, and the files
of the theme are local.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import drawn  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

import karat  # noqa: E402

project = "karat"
copyright = "the karat developers"
author = "the karat developers"
version = release = karat.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "drawn",
    "measured",
    "formulas",
    "kept",
    "shown",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "joss",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.zip",
    "gallery/**/*.json",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True
highlight_language = "none"
# Python's own names are not documented here, and no inventory is fetched for them.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(collections|dask|fsspec|numpy|pandas|pyarrow|pyspark|sklearn|statsmodels|typing)\..*",
    )
]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings name the types, in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
DEFAULT_LINKS.clear()  # they would link int, str and others to pages that do not exist here
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # except these
numpydoc_xref_aliases = {
    **{name: f"karat.{name}" for name in karat.__all__ if name[0].isupper()},
    "ExactCV": "karat.estimators.ExactCV",
    "Problem": "karat.problems.Problem",
    "Recovery": "karat.models.Recovery",
}
numpydoc_class_members_toctree = False

THUMBNAIL = HERE / "_build" / "thumbnail.png"
THUMBNAIL.parent.mkdir(exist_ok=True)
drawn.save(HERE / "figures" / "thumbnail.py", THUMBNAIL)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"demo\.py$",  # the command `karat demo`, which ends its process
    "within_subsection_order": "gallery_order.ReadingOrder",
    "default_thumb_file": str(THUMBNAIL),
    "doc_module": ("karat",),
    "backreferences_dir": "gallery/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page would fetch scripts
    "min_reported_time": 1,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "karat"
html_static_path = ["_static"]
html_css_files = ["karat.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "changelog": []}
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc"], "peers": []},  # its tables are wide
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def leave_out_routing(app, what, name, obj, skip, options):
    """Leave out set_fit_request and similar methods, which scikit-learn adds to every estimator."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app):
    app.connect("autodoc-skip-member", leave_out_routing)
