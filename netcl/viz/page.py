"""A pass as one HTML page that steps through it by keyboard and by buttons, with no server and no network."""

from __future__ import annotations

import json
import re

from netcl.viz.css import VARIABLES, VariableWriter, style, widened
from netcl.viz.frames import Frames, Look
from netcl.viz.panels import panel
from netcl.viz.progress import progress
from netcl.viz.text import clean, xml

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # nothing from any network
_LOOK = """
body.netcl-step{margin:0;padding:16px;max-width:none;background:var(--netcl-page,#fff)}
html{color-scheme:light dark}
main.netcl-step{margin:0 auto}
h1{font-size:18px;margin:0 14px 8px;font-weight:700}
nav{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin:4px 14px 10px}
button{font:inherit;font-size:13px;min-height:32px;padding:4px 10px;border:1px solid var(--netcl-frame);
border-radius:5px;background:var(--netcl-card);color:var(--netcl-ink);cursor:pointer}
button:disabled{color:var(--netcl-muted);border-color:var(--netcl-faint);cursor:default}
input[type=range]{flex:1 1 120px;min-height:32px;accent-color:var(--netcl-backward)}
output{min-width:7.5em;font-size:13px;color:var(--netcl-muted)}
:focus-visible{outline:3px solid var(--netcl-forward);outline-offset:2px}
details{margin:8px 14px}summary{cursor:pointer;padding:4px 0}li{margin:2px 0}
""".replace("\n", "")

_SCRIPT = """
(function(){"use strict";
var data=JSON.parse(document.getElementById("netcl-data").textContent);
var last=data.frames.length-1,at=0,timer=0;
function get(id){return document.getElementById("netcl-"+id);}
var picture=get("picture"),below=get("below"),say=get("say"),range=get("range"),where=get("where"),play=get("play");
function show(to){
 at=Math.max(0,Math.min(last,to));
 var frame=data.frames[at],parts=[data.open[at]];
 for(var i=0;i<frame.length;i++)parts.push(data.chunks[i][frame[i]]);
 picture.innerHTML=parts.join("")+"</svg>";
 below.innerHTML=data.panels[at];say.textContent=data.said[at];
 range.value=at;where.textContent="step "+at+" of "+last;
 range.setAttribute("aria-valuetext","step "+at+" of "+last);
 get("first").disabled=get("back").disabled=at===0;
 get("next").disabled=get("last").disabled=at===last;
 if(at===last)stop();
}
function label(text,pressed){play.textContent=text;play.setAttribute("aria-pressed",pressed);}
function stop(){if(timer){clearInterval(timer);timer=0;}label("Play","false");}
function start(){if(at===last)show(0);timer=setInterval(function(){show(at+1);},2500);label("Pause","true");}
function go(to){stop();show(to);}
get("first").onclick=function(){go(0);};get("back").onclick=function(){go(at-1);};
get("next").onclick=function(){go(at+1);};get("last").onclick=function(){go(last);};
play.onclick=function(){if(timer)stop();else start();};
range.oninput=function(){go(Number(range.value));};
document.addEventListener("keydown",function(event){
 if(event.altKey||event.ctrlKey||event.metaKey)return;
 var moves={ArrowLeft:at-1,ArrowRight:at+1,Home:0,End:last};
 if(event.target===range||!(event.key in moves))return;
 event.preventDefault();go(moves[event.key]);
});
document.body.classList.add("netcl-live");show(0);
})();
"""


def page(frames: Frames, notes: tuple[str, ...] = ()) -> str:
    """The page of a pass; it follows the reader's light or dark scheme."""
    passage = frames.passage
    name = passage.view.name
    title = f"Backward pass of {name}, step by step"
    first = frames.svg(Look(0), VARIABLES, VariableWriter)
    words = "".join(f'<li value="{step.number}">{xml(step.sentence)}</li>' for step in passage.steps)
    shown = (*passage.view.notes, *notes)
    said = "".join(f'<p class="netcl-note">{xml(note)}</p>' for note in shown)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{xml(title)}</title>{style(system=True)}<style>{_LOOK}</style></head>
<body class="netcl-step"><main class="netcl-step"{widened(frames.page)}><h1>{xml(title)}</h1>
<div id="netcl-picture">{first}</div>
<nav aria-label="Steps">
<button id="netcl-first" type="button">⏮ First</button><button id="netcl-back" type="button">◀ Back</button>
<button id="netcl-play" type="button" aria-pressed="false">Play</button>
<button id="netcl-next" type="button">Next ▶</button><button id="netcl-last" type="button">Last ⏭</button>
<input id="netcl-range" type="range" min="0" max="{passage.last}" value="0" aria-label="Step">
<output id="netcl-where" for="netcl-range">step 0 of {passage.last}</output></nav>
<div class="netcl-panel">
<p class="netcl-say" id="netcl-say" aria-live="polite">{xml(passage.steps[0].sentence)}</p></div>
<div id="netcl-below">{_below(frames, 0)}</div>
<details><summary>All steps in words</summary><ol start="0">{words}</ol></details>
<div class="netcl-panel">{said}<p class="netcl-note">Arrow keys, Home and End go from step to step.</p></div>
<noscript><p class="netcl-panel">Without scripts the first step is shown; all stand in words above.</p></noscript>
</main><script type="application/json" id="netcl-data">{_data(frames)}</script><script>{_SCRIPT}</script></body></html>
"""


def still(title: str, picture: str, text: str) -> str:
    """A page with one picture, drawn in the variables of css.py, and what it says as text."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{xml(title)}</title>{style(system=True)}<style>{_LOOK}</style></head>
<body class="netcl-step"><main class="netcl-step"><h1>{xml(title)}</h1>
{picture}
<details><summary>The same as a table</summary>
<pre style="overflow:auto" tabindex="0">{xml(text)}</pre></details>
</main></body></html>
"""


def _below(frames: Frames, at: int) -> str:
    """What stands below the sentence, which is an element of its own so that screen readers speak it."""
    whole = panel(frames.passage, at)
    said = f'<p class="netcl-say">{xml(frames.passage.steps[at].sentence)}</p>'
    return whole.replace(said, "", 1)


def _data(frames: Frames) -> str:
    """The frames as JSON: every group of elements once for each of its forms, and which form each step shows."""
    opening, chosen = [], []
    forms: list[dict[str, int]] = []
    for step in progress(frames.passage.steps, "steps", len(frames.passage.steps)):
        start, chunks = frames.chunks(Look(step.number), VARIABLES, VariableWriter)
        forms = forms or [{} for _ in chunks]
        opening.append(start)
        chosen.append([known.setdefault(chunk, len(known)) for known, chunk in zip(forms, chunks, strict=True)])
    data = {
        "open": opening,
        "chunks": [list(known) for known in forms],
        "frames": chosen,
        "panels": [_below(frames, step.number) for step in frames.passage.steps],
        "said": [clean(step.sentence) for step in frames.passage.steps],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # No text of a user may end the script element, or begin another.
    return re.sub("<(?=[!]|script)", r"\\u003c", text.replace("</", "<\\/"), flags=re.IGNORECASE)
