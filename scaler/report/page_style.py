"""How the pages look. Colours have names, so that dark, light and paper differ in one place."""

_LIGHT = """
  --paper: #ffffff; --ink: #1b1f24; --quiet: #57606a; --grid: #d8dee4; --line: #0a5bb5; --safe: #1a7f37; --good: #1a7f37; --bad: #c02128;
  --unsure: #8a5a00; --none: #6e7781; --limit: #7a3fc4; --chosen: #eaf6ec;
"""
_DARK = """
  --paper: #10141a; --ink: #e6edf3; --quiet: #9aa5b1; --grid: #2d343d; --line: #6cb2ff; --safe: #56d364; --good: #56d364; --bad: #ff7b72;
  --unsure: #e3b341; --none: #9aa5b1; --limit: #c8a2ff; --chosen: #14281a;
"""

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
body {{ margin: 0 auto; padding: 1.5rem 1rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
h1 {{ margin: 0 0 .75rem; font-size: 1.45rem; line-height: 1.3; }}
h1::first-letter {{ text-transform: uppercase; }}
h2 {{ margin: 2rem 0 .5rem; font-size: 1.1rem; }}
.subject, footer, dt {{ color: var(--quiet); }}
.subject {{ margin: 0; }}
footer {{ margin-top: 2rem; font-size: .85rem; }}
ul {{ margin: .5rem 0; padding-left: 1.2rem; }}
.why {{ list-style: none; padding: 0; }}
.legend {{ display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; padding: 0; font-size: .9rem; }}
.legend svg {{ vertical-align: -3px; margin-right: .3rem; }}
figure {{ margin: 1rem 0; overflow-x: auto; break-inside: avoid; }}
figcaption {{ font-weight: 600; }}
figure svg {{ display: block; width: 100%; min-width: 32rem; height: auto; }}
svg text {{ font-size: 13px; fill: var(--quiet); }}
svg path {{ fill: none; stroke: var(--ink); }}
svg .grid {{ stroke: var(--grid); }}
svg .axis {{ stroke: var(--quiet); }}
svg .line {{ stroke: var(--line); stroke-width: 2; stroke-linejoin: round; }}
svg .band {{ fill: var(--line); fill-opacity: .16; stroke: none; }}
svg .bound {{ stroke: var(--line); stroke-width: 1.5; }}
svg .limit {{ stroke: var(--limit); stroke-width: 2; stroke-dasharray: 7 5; }}
svg .safe {{ stroke: var(--safe); stroke-width: 2; }}
svg .hatch {{ stroke: var(--quiet); stroke-opacity: .45; stroke-width: 1.5; }}
svg .limit-label, svg .safe-label {{ font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }}
svg .limit-label {{ fill: var(--limit); }}
svg .safe-label {{ fill: var(--safe); }}
svg .point {{ stroke-width: 2.5; fill: var(--paper); }}
svg .point.passes {{ stroke: var(--good); fill: var(--good); }}
svg .point.fails {{ stroke: var(--bad); fill: none; }}
svg .point.unshown {{ stroke: var(--unsure); }}
svg .point.unusable {{ stroke: var(--none); }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }}
thead th {{ color: var(--quiet); font-weight: 600; vertical-align: bottom; white-space: normal; }}
th:last-child, td:last-child {{ text-align: left; padding-right: .3rem; }}
.chosen {{ background: var(--chosen); }}
.verdict.passes {{ color: var(--good); }} .verdict.fails {{ color: var(--bad); }}
.verdict.unshown {{ color: var(--unsure); }} .verdict.unusable {{ color: var(--none); }}
dl {{ display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .15rem 1.25rem; margin: 0; font-size: .9rem; }}
dt, dd {{ margin: 0; min-width: 0; overflow-wrap: anywhere; }}
@media (max-width: 40rem) {{ dl {{ grid-template-columns: 1fr; }} dd {{ margin-bottom: .4rem; }} }}
@media print {{ :root {{ color-scheme: light; }} body {{ max-width: none; padding: 0; font-size: 11pt; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }} .wide, figure {{ overflow: visible; }} figure svg {{ min-width: 0; }}
  tr {{ break-inside: avoid; }} }}
"""
