"""How an audit's page looks, by day and by night."""

LIGHT = {
    "ink": "#1d2a35",
    "faint": "#5d6b78",
    "paper": "#ffffff",
    "rule": "#dfe5ea",
    "holds": "#1f6fb2",
    "broken": "#b3541e",
    "bad": "#c01530",
}
DARK = {
    "ink": "#e4eaf0",
    "faint": "#9aa8b5",
    "paper": "#12181e",
    "rule": "#2b3640",
    "holds": "#6db3ec",
    "broken": "#f0975a",
    "bad": "#ff6b7f",
}
RULES = """
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem }
p, li { max-width: 46rem }
.verdict { font-weight: 600 }
.clean { color: var(--holds) }
.guilty { color: var(--bad) }
.faint { color: var(--faint) }
.wide { overflow-x: auto }
.glance svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: .86rem; white-space: nowrap }
th, td { padding: .1rem .7rem .1rem 0; border-bottom: 1px solid var(--rule); text-align: left }
thead th { font-weight: 500; color: var(--faint); vertical-align: bottom }
tbody th { font-weight: 400 }
.n { text-align: right; font-variant-numeric: tabular-nums }
.s { padding-top: 0; padding-bottom: 0; line-height: 0 }
svg text { font: 11px system-ui, sans-serif; fill: var(--faint) }
.claim { stroke: var(--ink); stroke-width: 1.5 }
.exact { fill: none; stroke: var(--faint); stroke-width: 1.5 }
.holds { fill: var(--holds) }
.broken { fill: var(--broken) }
.bad { fill: var(--bad) }
@media print { body { max-width: none } }
"""


def _named(colours: dict[str, str]) -> str:
    return ":root { " + "; ".join(f"--{name}: {colour}" for name, colour in colours.items()) + " }"


STYLE = (
    f":root {{ color-scheme: light dark }}\n{_named(LIGHT)}\n"
    f"@media (prefers-color-scheme: dark) {{ {_named(DARK)} }}{RULES}"
)
