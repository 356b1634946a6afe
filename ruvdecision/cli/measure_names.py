"""Measures as a person spells them on a command line: ``IO``, ``linkage``, ``Cluster(clusters=50)``."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..checks import check_arguments, suggest
from ..errors import InputError
from ..measures.battery import BATTERIES, labelled_measures, panel


def spell_measures(
    texts: Sequence[str],
    *,
    known: Sequence[str] = (),
    models: Sequence[str] = (),
    columns: Sequence[str] = (),
    missing: str | None = None,
    weights: str | None = None,
    by: str | None = None,
    rows: int = 0,
) -> list[Any]:
    """Make measures from their spelling: a column's or a class's name, with arguments in brackets where wanted.

    Parameters
    ----------
    texts : list of str
        Each may hold several, separated by commas. Without any: linkage, IO and EO where there is a model, the default
        panel otherwise. One of "risk", "utility" and "all" alone is a battery of all that suit the file.
    known : list of str
        Columns that the intruder knows, for measures with an argument ``known`` or ``keys``.
    models : list of str
        Formulas, for measures with an argument ``model``.
    columns : list of str
        Columns to compare, for measures with an argument ``columns``.
    missing : str, optional
        How to take missing values, ``missing`` of every measure; one that cannot refuses by name.
    weights : str, optional
        The column of sampling weights, for every measure; one that has no use for them refuses by name.
    by : str, optional
        The column whose values part the records, for every measure.
    rows : int
        Size of the file, for a battery.

    Examples
    --------
    >>> spell_measures(["linkage, IO"], known=["age"], models=["income ~ age"])
    [RecordLinkage(known=('age',)), IntervalOverlap(model='income ~ age')]
    """
    for option, given in (("measures", texts), ("model", models)):
        if any(not text.strip(" ,") for text in given):
            raise InputError(f"--{option} is empty", ", ".join(map(repr, given)), "Write it out, or leave it out")
    words = [word for text in texts for word in _split_at_commas(text)]
    if not words and models:
        words = ["linkage", "IO", "EO"]
    model = models[0] if len(models) == 1 else list(models)
    offered = {"known": list(known), "keys": list(known), "model": model, "columns": list(columns)}
    settings = {k: v for k, v in offered.items() if v}
    common = {k: v for k, v in (("missing", missing), ("weights", weights), ("by", by)) if v is not None}
    made: list[Any]
    if not words or (len(words) == 1 and words[0] in BATTERIES):
        name = words[0] if words else None
        made = panel(name, rows, lambda kind: _make_measure(kind.__name__, settings, common))
    else:
        made = [_make_measure(word, settings, common) for word in words]
    taken = {f.name for item in made for f in dataclasses.fields(item)}
    for option, names in {"known": {"known", "keys"}, "model": {"model"}, "columns": {"columns"}}.items():
        if offered[option] and not taken & names:
            # An option that changes nothing would make the caller believe that it did.
            raise InputError(
                f"No measure has a use for --{option}",
                ", ".join(item.name for item in made),
                f"Leave --{option} out, or add a measure that takes it",
            )
    return made


def split_names(texts: Sequence[str]) -> list[str]:
    """Names from texts that may hold several, separated by commas.

    >>> split_names(["age, region", "income"])
    ['age', 'region', 'income']
    """
    names = [[name.strip() for name in text.split(",") if name.strip()] for text in texts]
    if not all(names):
        # Nothing must not come to mean everything.
        raise InputError("An option holds no names", ", ".join(map(repr, texts)), 'Write "age,region", or leave it out')
    return [name for group in names for name in group]


def _make_measure(word: str, offered: Mapping[str, Any], common: Mapping[str, str]) -> Any:
    match = re.fullmatch(r"\s*([^()]+?)\s*(?:\((.*)\)\s*)?", word, flags=re.DOTALL)
    if match is None:
        raise InputError(
            "A measure is spelled as a name, or a name with arguments", word, "Write IO, or Cluster(clusters=50)"
        )
    kind = _find_measure(match[1])
    settings = _read_arguments(kind, match[2] or "")
    fields = [f.name for f in dataclasses.fields(kind)]
    extra = {k: v for k, v in offered.items() if k in fields and k not in settings}
    strange = [k for k in common if k not in fields]
    if strange:
        what = f"Measures of counts of records have no use for --{strange[0]}"
        raise InputError(what, kind.label, f"Leave --{strange[0]} out, or measure individual_risk")
    return kind(**settings, **extra, **{k: v for k, v in common.items() if k not in settings})


def _find_measure(name: str) -> Any:
    every = labelled_measures()
    plain = {_without_separators(label): c for label, c in every.items()} | {
        _without_separators(c.__name__): c for c in every.values()
    }
    if _without_separators(name) not in plain:
        raise InputError(
            "There is no such measure", name, suggest(name, [*every, *(c.__name__ for c in every.values())])
        )
    return plain[_without_separators(name)]


def _without_separators(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _read_arguments(kind: Any, text: str) -> dict[str, Any]:
    """Arguments by name, as Python literals, and words that stand alone as text; nothing is run."""
    try:
        with warnings.catch_warnings():
            # Text such as "\d" is text and no mistake; Python would warn of it.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError("more than arguments")
        given = [ast.literal_eval(_WordsAsText().visit(a)) for a in call.args]
        named = [k for k in call.keywords if k.arg is not None]
        settings = {str(k.arg): ast.literal_eval(_WordsAsText().visit(k.value)) for k in named}
        if len(settings) != len(call.keywords):
            raise ValueError("**")
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError(
            f"The arguments of {kind.__name__} cannot be read",
            text,
            'Write numbers, names and lists, and quotes around other text: clusters=50, target=income, holdout="a.csv"',
        ) from None
    # The signature and not the fields: inheritance decides on their order, and a class may write its own __init__.
    takes = inspect.signature(kind).parameters
    places = [name for name, p in takes.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = list(takes)
    if "allow_code" in settings:
        raise InputError("A formula on the command line is never code", "allow_code", "Leave it out, or use Python")
    check_arguments(kind.__name__, settings, names)
    if len(given) > len(places):
        raise InputError(f"{kind.__name__} takes fewer arguments", f"{len(given)}", f"It takes {', '.join(names)}")
    both = [k for k in places[: len(given)] if k in settings]
    if both:
        raise InputError(f"An argument of {kind.__name__} is given twice", both[0], "Give it once")
    return dict(zip(places, given, strict=False)) | settings


class _WordsAsText(ast.NodeTransformer):
    """A column is named on a command line as it is in --known, without quotes."""

    def visit_Name(self, node: ast.Name) -> ast.Constant:
        return ast.Constant(node.id)


def _split_at_commas(text: str) -> list[str]:
    """Cut at commas that stand outside brackets and quotes."""
    words, depth, quote, start = [], 0, "", 0
    for i, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            words.append(text[start:i])
            start = i + 1
    return [word.strip() for word in [*words, text[start:]] if word.strip()]
