"""A report as one HTML page: no scripts, nothing fetched, readable in light and dark and on paper."""

from __future__ import annotations

import html

from .blocks import Block, Document, Fold, Formula, Heading, Items, Line, Paragraph, Picture, Table, Terms, clean
from .picture import draw_svg

__all__ = ["as_html"]

# Even if something slipped in, a browser would neither run nor fetch it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

FOLDED = (
    "Folded tables are not printed while they are closed: open them before printing if the record should hold them."
)

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #57606a; --rule: #d0d7de; --band: #f6f8fa;
  --good: #0b5d3b; --good-band: #e6f4ec; --bad: #8a3b00; --bad-band: #fdf0e3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #14181d; --soft: #a3adb8; --rule: #3a434d; --band: #1d232a;
  --good: #86dcae; --good-band: #12301f; --bad: #ffb77a; --bad-band: #38230f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--rule); }
h3 { font-size: 1.08rem; margin: 1.6rem 0 .4rem; }
a { color: inherit; }
nav ul { columns: 2 16rem; padding-left: 1.2rem; }
.quiet { color: var(--soft); }
.decision, .warning { font-size: 1.12rem; padding: .8rem 1rem; border-left: .35rem solid var(--good); background: var(--good-band); }
.warning { border-color: var(--bad); background: var(--bad-band); }
.formula { font-family: "STIX Two Math", "Cambria Math", "DejaVu Serif", Georgia, serif; margin: .4rem 0 .8rem 1.2rem; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--rule); border-radius: .4rem; }
figcaption, caption { color: var(--soft); font-size: .9rem; text-align: left; padding: .4rem 0; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--good); }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--rule); }
tbody th { font-weight: normal; min-width: 12rem; }
thead th { background: var(--band); }
td, thead th { overflow-wrap: break-word; }
tbody .number { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.chosen > * { font-weight: bold; background: var(--good-band); }
tr.doubtful > * { background: var(--bad-band); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; }
details { margin: .8rem 0; }
summary { cursor: pointer; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print { @page { margin: 18mm 15mm; }
  :root { color-scheme: light; --ink: #000; --paper: #fff; --soft: #333; --rule: #999; --band: #f2f2f2;
    --good: #0b5d3b; --good-band: #eef6f1; --bad: #8a3b00; --bad-band: #faf0e6; }
  body { font-size: 10pt; } main { max-width: none; padding: 0; } nav { display: none; } .wide { overflow: visible; }
  h2, h3, caption { break-after: avoid; } figure, tr, dl > *, .decision, .warning, .formula { break-inside: avoid; }
  th, td { padding: .2rem .35rem; } tbody th { min-width: 7rem; } thead { display: table-header-group; }
  .decision, .warning, tr.chosen > *, tr.doubtful > * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def as_html(document: Document) -> str:
    """Write a document as one HTML page. Every text is escaped here, and only here.

    >>> "&lt;b&gt;" in as_html(Document("<b>", "", ()))
    True
    """
    title = _text(document.title)
    chapters = [b for b in document.blocks if isinstance(b, Heading) and b.level == 2]
    links = "\n".join(f'<li><a href="#{_text(h.anchor)}">{_text(h.text)}</a></li>' for h in chapters)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_text(POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="generator" content="ruvdecision">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{title}</h1>",
        f'<p class="quiet">{_text(document.subtitle)}</p>' if document.subtitle else "",
        f'<nav aria-label="Contents">\n<ul>\n{links}\n</ul>\n</nav>' if len(chapters) > 1 else "",
        *map(_block, document.blocks),
        f'<p class="quiet">{FOLDED}</p>' if any(isinstance(b, Fold) for b in document.blocks) else "",
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _text(text: str) -> str:
    return html.escape(clean(text), quote=True)


def _block(block: Block) -> str:
    match block:
        case Heading(level, text, anchor):
            mark = f' id="{_text(anchor)}"' if anchor else ""
            return f"<h{level}{mark}>{_text(text)}</h{level}>"
        case Paragraph(text, kind):
            return f'<p class="{_text(kind)}">{_text(text)}</p>' if kind else f"<p>{_text(text)}</p>"
        case Items(items):
            return "<ul>\n" + "\n".join(f"<li>{_text(item)}</li>" for item in items) + "\n</ul>"
        case Terms(pairs):
            return (
                "<dl>\n"
                + "\n".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs)
                + "\n</dl>"
            )
        case Formula(lines):
            return '<p class="formula">' + "<br>\n".join(map(_text, lines)) + "</p>"
        case Picture():
            return f"<figure>\n{draw_svg(block)}\n<figcaption>{_text(block.caption)}</figcaption>\n</figure>"
        case Fold(summary, blocks):
            inside = "\n".join(map(_block, blocks))
            return f"<details>\n<summary>{_text(summary)}</summary>\n{inside}\n</details>"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    kinds = [' class="number"' if number else "" for number in table.numbers]
    head = "".join(f'<th scope="col"{kind}>{_text(text)}</th>' for text, kind in zip(table.head, kinds, strict=True))
    body = "\n".join(_line(line, kinds) for line in table.lines)
    # A wide table scrolls in its own frame, which the keyboard must be able to reach.
    frame = f'<div class="wide" role="region" tabindex="0" aria-label="{_text(table.caption)}">'
    caption = f"<caption>{_text(table.caption)}</caption>"
    return (
        f"{frame}\n<table>\n{caption}\n<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _line(line: Line, kinds: list[str]) -> str:
    mark = f' class="{_text(line.kind)}"' if line.kind else ""
    first, *others = line.cells
    cells = "".join(f"<td{kind}>{_text(cell)}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
    return f'<tr{mark}><th scope="row">{_text(first)}</th>{cells}</tr>'
