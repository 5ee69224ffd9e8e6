"""Colours as CSS variables, so that a picture inside HTML follows the page's own light or dark scheme."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from netcl.viz.arrange import PAGE
from netcl.viz.palette import DARK, LIGHT
from netcl.viz.svg import Writer

VARIABLES = MappingProxyType({role: f"var(--netcl-{role})" for role in LIGHT})
_DARK_PAGES = (
    '[data-jp-theme-light="false"] .netcl-step',
    ".vscode-dark .netcl-step",
    'html[theme="dark"] .netcl-step',
)

# A widget stands after a static picture and a note. Live, it hides both. Without a kernel those two are what is seen:
# JupyterLab then says "Error displaying widget" and nothing else, in an element that has no others in it.
_CHILD = ".jp-OutputArea-child"
_NOTE = (
    '<p class="netcl-note">The buttons and sliders of this picture work while a kernel runs: run the cell to have them.'
    f"</p><style>{_CHILD}:has(.netcl-note)+{_CHILD}>.jupyter-widgets:not(:has(*)){{display:none}}</style>"
)
ALONE = (
    f"<style>{_CHILD}:has(+{_CHILD} .netcl-live),"
    f"{_CHILD}:has(+{_CHILD} .netcl-note):has(+{_CHILD}+{_CHILD} .netcl-live){{display:none}}</style>"
)


def show(static: Mapping[str, str], live: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Display a widget, and before it what stands in its place in a notebook that is opened without a kernel."""
    from IPython.display import display  # there only in notebooks

    display(static, metadata=metadata or {}, raw=True)
    display({"text/html": _NOTE}, raw=True)
    display(live, raw=True)


def widened(page: float) -> str:
    """An attribute for an element of class netcl-step on a page that is wider than SHARED lets it be.

    >>> widened(720.0), widened(1000.0)
    ('', ' style="max-width:1000px"')
    """
    return f' style="max-width:{page:.0f}px"' if page > PAGE else ""


class VariableWriter(Writer):
    """Writes an SVG whose colours are CSS variables."""

    def _colour(self, role: str | tuple[str, str, float]) -> str:
        if isinstance(role, str):
            return self.colours[role]
        low, high, share = role
        return f"color-mix(in srgb,{self.colours[low]} {round(100 * (1 - share))}%,{self.colours[high]})"


def _colours(scheme: MappingProxyType[str, str]) -> str:
    return "".join(f"--netcl-{role}:{colour};" for role, colour in scheme.items())


SHARED = """
.netcl-step{font:14px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;color:var(--netcl-ink);
background:var(--netcl-page);max-width:720px;box-sizing:border-box;text-align:start}
.netcl-step p,.netcl-step div.netcl-panel,.netcl-step pre{box-sizing:border-box}
.netcl-step svg{display:block;max-width:100%;height:auto}
.netcl-step p{margin:0}
.netcl-step code,.netcl-step pre{font:13px/1.5 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
background:none;color:inherit;padding:0;margin:0;border:0}
.netcl-panel{padding:2px 14px 12px}
.netcl-say{min-height:3.1em}
.netcl-src{display:flex;gap:10px;align-items:baseline;margin:6px 0 0;padding:5px 10px;background:var(--netcl-card);
border-inline-start:3px solid var(--netcl-backward);white-space:pre-wrap}
.netcl-step .netcl-src code{min-width:0;overflow-wrap:anywhere}
.netcl-src span{color:var(--netcl-muted);font-size:12.5px;white-space:nowrap}
.netcl-step table{border-collapse:collapse;margin:10px 0 0;font-size:13px;width:100%;color:inherit;border:0;
table-layout:auto}
.netcl-step caption{caption-side:top;text-align:start;font-weight:700;padding:0 0 2px;color:var(--netcl-ink)}
.netcl-step thead,.netcl-step tbody tr,.netcl-step thead tr{background:none;border:0}
.netcl-step th,.netcl-step td{text-align:start;padding:3px 10px 3px 0;font-weight:400;border:0;
border-top:1px solid var(--netcl-faint);vertical-align:top;background:none;color:inherit;white-space:normal}
.netcl-step thead th{color:var(--netcl-muted);border-top:0;font-size:12.5px}
.netcl-step td.n,.netcl-step th.n{text-align:end;padding-right:0;font-variant-numeric:tabular-nums}
.netcl-step tr.now td{font-weight:700;color:var(--netcl-backward)}
.netcl-step tr.later td{color:var(--netcl-muted)}
.netcl-note{color:var(--netcl-muted);font-size:12.5px}
.netcl-ask{margin:10px 14px 0;padding:10px 12px;border:1.5px solid var(--netcl-backward);border-radius:6px}
.netcl-step h4{margin:0 0 2px;font-size:14px;font-weight:700;color:inherit}
.netcl-right{border-color:var(--netcl-forward)}
.netcl-error{margin:8px 14px;padding:8px 12px;background:var(--netcl-warn-slot);color:var(--netcl-ink);
border-inline-start:4px solid var(--netcl-warn);white-space:pre-wrap}
.netcl-step pre.netcl-kernel{max-height:26em;overflow:auto;background:var(--netcl-card);padding:8px 10px;
margin:4px 0 10px;border:1px solid var(--netcl-faint);border-radius:4px}
""".replace("\n", "")


def style(system: bool = False) -> str:
    """The style element of a stepper; with `system` the scheme is the reader's own, as for a page by itself."""
    dark = _colours(DARK)
    if system:
        other = f"@media (prefers-color-scheme: dark){{.netcl-step{{{dark}}}}}"
    else:
        other = f"{','.join(_DARK_PAGES)}{{{dark}}}"
    return f"<style>.netcl-step{{{_colours(LIGHT)}}}{other}{SHARED}</style>"
