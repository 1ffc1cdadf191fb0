"""Figures from outcomes: which outcomes a figure lacks, its caption, and its picture as a file or as SVG text."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from mfcheck.outcome import Outcome

#: gif is the animation of a figure that has one.
FORMATS = ("png", "pdf", "svg", "gif")
#: A screen's resolution: at a page's a GIF of a few seconds takes megabytes.
GIF_DPI = 110


def lacking(module: ModuleType, read: Mapping[str, Outcome]) -> list[str]:
    """The outcomes that a figure needs and that are not among those read."""
    return [name for name in module.NEEDS if name not in read]


def caption(module: ModuleType) -> str:
    """What a figure shows, what should be seen in it, and what would refute the claim: the module's docstring."""
    return " ".join(str(module.__doc__).split())


def claims_of(module: ModuleType) -> list[str]:
    """Ids of the claims that a figure is drawn from, in its own order."""
    return list(dict.fromkeys(name.split(":")[0] for name in module.NEEDS))


def markdown(captions: Mapping[str, str], folder: str) -> str:
    """A page of pictures, {name: caption}, whose PNG files lie in `folder` as seen from the page."""
    parts = [f"## {name}\n\n![{name}]({folder}/{name}.png)\n\n{text}\n" for name, text in captions.items()]
    return "\n".join(["# Gallery\n\nWritten by `make readme` from the outcomes of a run.\n", *parts])


def save(
    name: str, module: ModuleType, read: Mapping[str, Outcome], out: Path, formats: Sequence[str], dpi: int = 300
) -> list[Path]:
    """Draws a figure into `out`, a file a format, and returns them. An interrupted run leaves whole files."""
    from matplotlib import pyplot

    out.mkdir(parents=True, exist_ok=True)
    still: Any = module.draw(read) if set(formats) - {"gif"} else None
    saved = []
    for ending in formats:
        if ending == "gif" and not hasattr(module, "animate"):
            continue
        # drawn beside its place and moved there
        partial, place = out / f".{name}.{ending}", out / f"{name}.{ending}"
        if ending == "gif":
            module.animate(read).save(partial, writer="pillow", dpi=min(dpi, GIF_DPI))
        else:
            still.savefig(partial, format=ending, dpi=dpi)
        partial.replace(place)
        saved.append(place)
    pyplot.close("all")
    return saved


def svg(module_name: str, read: Mapping[str, Outcome]) -> str | None:
    """The picture as SVG text that needs no font, or None where outcomes are lacking."""
    from matplotlib import pyplot

    module = import_module(module_name)
    if lacking(module, read):
        return None
    text = io.StringIO()
    figure = module.draw(read)
    # glyphs as paths: a reader's own fonts have other widths, and labels would run into each other
    with pyplot.rc_context({"svg.fonttype": "path", "svg.hashsalt": module_name}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()
