"""The parts of a report in a template. The one place that knows jinja2: every value is masked, made printable and escaped here,
whatever the template does with it, because metric names, error texts and host names are written by others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sentinel.client.masking import Masking
from sentinel.paging.plain_text import plain

TEMPLATES = Path(__file__).with_name("templates")
VALUE_CHARS_MAX = 8000


def render(template: str, values: Mapping[str, Any]) -> str:
    """The page as text. `template`: incident.html or run.html."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    masking = Masking.of(os.environ)

    def finalize(value: object) -> object:
        if isinstance(value, Markup):
            return value
        text = "" if value is None else str(value)
        return masking.text(plain(text[:VALUE_CHARS_MAX]))

    loader = FileSystemLoader(TEMPLATES)
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=finalize, trim_blocks=True, lstrip_blocks=True
    )
