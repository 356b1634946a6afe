"""Synthesize: release records drawn from a model of the file instead of the records themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...checks import RELEASES, Columns, Seed, as_generator, check_choice, check_columns, check_integer, checked
from ...errors import InputError
from ..base import Mask
from ..columns import as_columns, kind_of, rank_columns, refuse_missing, refuse_shared_columns
from ..frame import Frame, real_like
from .copula import draw_copula, draw_hypercube
from .normal import draw_belief, draw_exact, draw_sampled
from .sequential import cart, draw_sequential, regression

METHODS = ("normal", "copula", "hypercube", "regression", "cart", "belief")
# Which methods know an option; the others refuse it rather than ignore it.
KNOWS = {
    "moments": ("normal",),
    "belief": ("belief",),
    "order": ("regression", "cart"),
    "proper": ("normal", "regression", "cart"),
    "min_leaf": ("cart",),
    "given": ("normal", "copula", "regression", "cart"),
}


@dataclass(frozen=True, repr=False)
class Synthesize(Mask):
    """Replace columns by values drawn from a model that was fitted to them.

    "regression" and "cart" synthesise missing values as they occur in the file: first whether a value is missing, then
    the value. Other methods refuse them by name, and all refuse infinite values. Columns that are neither synthesised
    nor given stay as they are and play no part. The release has as many records as the file; its rows belong to nobody.

    Parameters
    ----------
    method : str, default "normal"
        "normal": multivariate normal; numeric columns, released as real numbers.
        "copula": Gaussian copula with empirical margins; every released value occurs in the file, and rank
        correlations are kept in expectation. Numbers, booleans, dates and ordered categories.
        "hypercube": Latin hypercube sample with restored rank correlations (Dandekar et al. 2002; Iman and
        Conover 1982). Same columns.
        "regression": one column after the other, by linear or multinomial logistic regression on those before it.
        "cart": the same with trees (Reiter 2005; needs scikit-learn). Any columns; values occur in the file.
        "belief": from the posterior predictive law of ``belief``.
    moments : {"sampled", "exact"}, optional
        For "normal". "sampled" (the default) draws from the law with the sample's mean and covariance. "exact" maps the
        draw so that the release's sample mean and covariance are the original's to rounding (Woo's Syn).
    belief : Belief, optional
        A `NormalBelief`, or any belief with a method ``predictive(data, rng)``.
    columns : names or positions, optional
        Columns to synthesise; all of them if not given (for a belief with named columns, those).
    given : names or positions, optional
        Columns that stay and on which the draw is conditional. Not given: all other columns for "regression" and
        "cart", none for "normal" and "copula". An empty list is none.
    order : names or positions, optional
        The order in which "regression" and "cart" visit ``columns``; the order of the file if not given.
    proper : bool, default False
        Draw the model's parameters from their posterior (or a bootstrap sample) before each copy, as `combine_full`
        needs it. "belief" always does.
    min_leaf : int, optional
        Fewest records in a leaf for "cart"; 5 if not given.
    copies : int, default 1
        Number of data sets that `releases` gives back. `release` gives the first of them.

    Examples
    --------
    >>> df = pd.DataFrame({"age": [30, 41, 52, 38, 27], "income": [2.1, 3.3, 4.8, 2.9, 1.7]})
    >>> syn = Synthesize(method="normal", moments="exact").release(df, 1)
    >>> bool(np.allclose(syn.cov(), df.cov(), rtol=1e-10))
    True
    """

    method: str | None = None
    moments: str | None = checked(None, check_choice, options=("sampled", "exact"))
    belief: Any = None
    columns: Columns = checked(None, as_columns)
    given: Columns = checked(None, as_columns, empty=True)
    order: Columns = checked(None, as_columns)
    proper: bool = False
    min_leaf: int | None = checked(None, check_integer, low=1)
    copies: int = checked(1, check_integer, low=1, high=1_000_000)

    opaque: ClassVar[str] = "synthetic records are drawn from a model that was fitted to the whole file"

    def __post_init__(self) -> None:
        usual = "normal" if self.belief is None else "belief"
        method = check_choice("method", usual if self.method is None else self.method, METHODS)
        object.__setattr__(self, "method", method)
        super().__post_init__()
        for name, methods in KNOWS.items():
            value = getattr(self, name)
            if value is not None and value is not False and self.method not in methods:
                known = " and ".join(repr(m) for m in methods)
                raise InputError(f"{name} is for method {known} only", f"method={self.method!r}", f"Leave {name} out")
        if self.method == "belief" and self.belief is None:
            do = "Write Synthesize(belief=NormalBelief(...))"
            raise InputError('Synthesize(method="belief") needs a belief', None, do)
        if self.moments == "exact" and self.proper:
            what = "Exact moments and drawn parameters exclude each other"
            raise InputError(what, "proper=True", 'Use moments="sampled"')

    # -- releasing -----------------------------------------------------------------------------------

    def releases(self, data: Any, rng: Seed = None) -> list[Any]:
        """Give back ``copies`` independent releases, each of the kind that came in."""
        frame = Frame.of(data)
        return [self._draw_file(frame, stream).unwrap() for stream in as_generator(rng, RELEASES).spawn(self.copies)]

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        # The same stream as the first copy, so that release(data, 1) is releases(data, 1)[0].
        return self._draw_file(frame, rng.spawn(1)[0])

    def _draw_file(self, frame: Frame, rng: np.random.Generator) -> Frame:
        chosen, given = self._chosen_and_given(frame)
        who = f"Synthesize(method={self.method!r})"
        if frame.n < 2:
            do = "One record cannot be synthesised without showing it"
            raise InputError(f"{who} needs at least two records", frame.n, do)
        sequential = self.method in ("regression", "cart")
        do = "" if sequential else 'Use method="cart" or "regression", which draw what is missing, too, or fill it in'
        refuse_missing(who, frame.table.iloc[:, [*chosen, *given]], only_infinite=sequential, do=do)
        if self.method == "normal":
            return self._draw_normal(frame, chosen, given, rng)
        if sequential:
            linear = self.method == "regression"
            model = regression if linear else cart(self.min_leaf or 5)
            order = self._column_order(frame, chosen)
            return draw_sequential(frame, order, given, model, rng, proper=self.proper, corner=linear)
        if self.method == "belief":
            drawn = draw_belief(self.belief, frame, chosen, rng)
            if not isinstance(drawn, pd.DataFrame):
                drawn = pd.DataFrame(np.asarray(drawn).reshape(frame.n, len(chosen)))
            return frame.put(
                {i: _in_type_of_column(drawn.iloc[:, j], frame.table.iloc[:, i]) for j, i in enumerate(chosen)}
            )
        part = frame.table.iloc[:, chosen]
        ranked = rank_columns(who, part)
        if self.method == "hypercube":
            return frame.put(dict(zip(chosen, draw_hypercube(part, ranked, rng), strict=True)))
        rows = draw_copula(ranked, rank_columns(who, frame.table.iloc[:, given]), rng)
        return frame.with_values_from_rows(dict(zip(chosen, rows, strict=True)))

    def _draw_normal(self, frame: Frame, chosen: list[int], given: list[int], rng: np.random.Generator) -> Frame:
        names = frame.columns
        booleans = [names[i] for i in [*chosen, *given] if kind_of(frame.table.iloc[:, i]) == "boolean"]
        if booleans:
            do = 'Leave them out with columns=[...], or use method="cart"'
            raise InputError("Normal synthesis needs numbers", f"boolean {booleans}", do)
        x, _ = frame.numeric("Normal synthesis", [names[i] for i in chosen])
        g = frame.numeric("Normal synthesis", [names[i] for i in given])[0] if given else None
        values = draw_exact(x, g, rng) if self.moments == "exact" else draw_sampled(x, g, rng, proper=self.proper)
        return frame.put({i: real_like(values[:, j], frame.table.iloc[:, i]) for j, i in enumerate(chosen)})

    # -- which columns -------------------------------------------------------------------------------

    def _chosen_and_given(self, frame: Frame) -> tuple[list[int], list[int]]:
        """Positions of the columns to synthesise and of those given."""
        names = frame.columns
        wanted = self.columns
        if wanted is None and self.method == "belief" and frame.kind == "frame":
            wanted = getattr(self.belief, "columns", None)
        given = check_columns("given", self.given, names) if self.given else []
        if wanted is None:
            chosen = [i for i in range(len(names)) if i not in given]
        else:
            chosen = check_columns("columns", wanted, names)
            refuse_shared_columns("columns", chosen, "given", given, names)
            if self.given is None and self.method in ("regression", "cart"):
                given = [i for i in range(len(names)) if i not in chosen]
        if not chosen:
            raise InputError(
                "No column is left to synthesise", f"given={[names[i] for i in given]}", "Give fewer columns"
            )
        return chosen, given

    def _column_order(self, frame: Frame, chosen: list[int]) -> list[int]:
        if self.order is None:
            return sorted(chosen) if self.columns is None else chosen
        order = check_columns("order", self.order, frame.columns)
        if sorted(order) != sorted(chosen):
            do = f"Order these: {[frame.columns[i] for i in chosen]}"
            raise InputError("order must name every synthesised column once", self.order, do)
        return order


def _in_type_of_column(drawn: pd.Series, column: pd.Series) -> Any:
    """A belief's draw in the floating type of the column; other values stay as the belief gave them."""
    if (
        kind_of(drawn) == "number"
        and kind_of(column) in ("number", "boolean")
        and pd.api.types.is_float_dtype(drawn.dtype)
    ):
        return real_like(drawn.to_numpy(dtype=np.float64, na_value=np.nan), column)
    return drawn.array
