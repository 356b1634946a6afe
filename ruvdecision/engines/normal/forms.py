"""Targets of a normal belief, and their posteriors.

As linear forms of records, average, new record and mean, or as functions of draws of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...beliefs.normal import NormalBelief
from ...errors import UnsupportedError
from ...posteriors import Drawn, Gaussian, Mixture
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Files, Kind, LinearForm, Term
from ...users.user import User
from .conditioning import Conditioned

DRAWS = 4000
"""Draws from an exact posterior when a target is a nonlinear function."""
LARGEST_JOINT = 2000
"""Most entries of a file whose joint posterior is formed."""


def form_of(belief: NormalBelief, target: BaseTarget) -> LinearForm | None:
    """The linear form of a target, or None if it is not linear; every term of it has all k variables."""
    form = target.linear(belief.k, belief.scalar)
    if form is None or not any(t.component is not None for t in form.terms):
        return form
    matrix = form.matrix @ selector(belief, form.terms)
    return LinearForm(tuple(replace(t, component=None) for t in form.terms), matrix, form.constant, form.number)


def all_records(belief: NormalBelief) -> LinearForm:
    """All records, one after the other, as a linear form."""
    size = belief.records * belief.k
    terms = tuple(Term(Kind.RECORD, j) for j in range(belief.records))
    return LinearForm(terms, np.eye(size), np.zeros(size), False, plain=True)


def selector(belief: NormalBelief, terms: Sequence[Term]) -> Array:
    """Picks the single components that terms ask for out of their full vectors."""
    k = belief.k
    rows = []
    for i, term in enumerate(terms):
        whole = np.eye(k * len(terms))[i * k : i * k + k]
        rows.append(whole if term.component is None else whole[[term.component % k]])
    return np.concatenate(rows)


def gaussian_of(covariance: Array, form: LinearForm, mean: Array | None = None) -> Gaussian:
    """A posterior of a linear form with this covariance of the form itself."""
    if form.number:
        return Gaussian.scalar(np.zeros(()) if mean is None else mean[..., 0], covariance[..., 0, 0])
    return Gaussian(np.zeros(covariance.shape[-1]) if mean is None else mean, covariance)


def covariance_of(given: Conditioned, form: LinearForm) -> Array:
    """Covariance of a linear form given the release."""
    return given.covariance(form.terms, None if form.plain else form.matrix)


def covariances_by_place(given: Conditioned, form: LinearForm) -> list[tuple[float, Array]]:
    """Probability of each place where the record may lie, and the covariance of the form there."""
    if len(form.terms) != 1:
        what = "Several records in a random sample are not available in closed form"
        raise UnsupportedError(what, do="Ask for one Record at a time")
    matrix = None if form.plain else form.matrix
    places = given.channel.layout.places(form.terms[0].row % given.n)
    return [(p, given.record_covariance(t, c, matrix)) for p, t, c in places]


def mean_covariance(given: Conditioned, form: LinearForm) -> Array:
    """Expected posterior covariance of a linear function of a record in an unknown row.

    E(x_J | release) is the posterior mean of the average of all records, so the expected covariance is
    Cov(x_j) - Cov(average) + Cov(average | release).
    """
    within = form.matrix @ given.belief.record_covariance @ form.matrix.T * (1.0 - 1.0 / given.n)
    return within + given.covariance([Term(Kind.AVERAGE)], None if form.plain else form.matrix)


# -- posteriors -------------------------------------------------------------------------------------


def posterior_given(user: User, given: Conditioned, values: Array | None, rng: np.random.Generator) -> Posterior:
    """Posterior of the target after values released in the channel's order of rows; about the prior mean if none."""
    belief, target = user.belief, user.target
    if target.is_a(Kind.FILE):
        if given.n * given.k > LARGEST_JOINT or given.channel.location == "unknown":
            what = "The joint posterior of all records is too large or has no known order"
            raise UnsupportedError(what, do="Ask for Record(j)")
        form: LinearForm | None = all_records(belief)
    else:
        form = form_of(belief, target)
    place = given.channel.location if target.places_records and not target.is_a(Kind.FILE) else "known"
    if place == "unknown":
        return row_mixture(form, given, values)
    terms = joint_terms(belief, target) if form is None else form.terms
    mean = np.tile(belief.mu_mean, len(terms)) if values is None else given.means(values).of(terms)
    if form is None:
        select = selector(belief, terms)
        joint = Gaussian(select @ mean, given.covariance(terms, select)[0])
        return Drawn(drawn_values(belief, target, terms, joint.sample(DRAWS, rng)))
    return gaussian_of(covariance_of(given, form)[0], form, form.matrix @ mean + form.constant)


def row_mixture(form: LinearForm | None, given: Conditioned, values: Array | None) -> Mixture:
    """Posterior of a linear function of a record whose row is not known: every row may be the one."""
    if form is None or len(form.terms) != 1:
        what = "This function of records in unknown rows is not available in closed form"
        raise UnsupportedError(what, do="Ask for Record(j) or a linear function of it, or leave out Shuffle()")
    assert values is not None
    found = given.means(values)
    kinds = [(t, c) for _, t, c in given.channel.layout.classes()]
    matrix = None if form.plain else form.matrix
    means = found.records() @ form.matrix.T + form.constant
    covariances = np.empty((given.n if len(kinds) > 1 else 1, means.shape[1], means.shape[1]))
    for t, c in kinds:
        mine = (found.shape == t) & (found.cell == c) if len(kinds) > 1 else slice(None)
        covariances[mine] = given.record_covariance(t, c, matrix)[0]
    if form.number:
        return Mixture(Gaussian.scalar(means[:, 0], covariances[:, 0, 0]))
    return Mixture(Gaussian(means, covariances))


# -- functions that are not linear -------------------------------------------------------------------


def joint_terms(belief: NormalBelief, target: BaseTarget) -> tuple[Term, ...]:
    """The terms of a target, each once, the file as its records."""
    size = belief.records * belief.k
    if target.asks(Kind.FILE) and size > LARGEST_JOINT:
        what = f"{target.describe()} looks at {size} numbers at once"
        raise UnsupportedError(what, f"a limit of {LARGEST_JOINT}", "Ask for Record(j)")
    records = tuple(Term(Kind.RECORD, j) for j in range(belief.records))
    found = [t for term in target.terms for t in (records if term.kind is Kind.FILE else (term,))]
    return tuple(dict.fromkeys(found))


def drawn_values(belief: NormalBelief, target: BaseTarget, terms: Sequence[Term], draws: Array) -> Array:
    """The target at draws ``(points, entries)`` of the terms, side by side."""
    found: dict[Term, Array] = {}
    start = 0
    for term in terms:
        size = belief.k if term.component is None else 1
        piece = draws[:, start : start + size]
        found[term] = piece[:, 0] if belief.scalar or term.component is not None else piece
        start += size
    return target.numbers_in_files(_TermFiles(belief, found))


class _TermFiles(Files):
    """Draws of terms, looked up one by one."""

    def __init__(self, belief: NormalBelief, found: dict[Term, Array]) -> None:
        super().__init__()
        self.belief, self.found = belief, found

    def records(self) -> Array:
        return np.stack([self.record(row) for row in range(self.belief.records)], axis=1)

    def record(self, row: int) -> Array:
        return self.found[Term(Kind.RECORD, row)]

    def average(self) -> Array:
        return self.found[Term(Kind.AVERAGE)]

    def new_record(self) -> Array:
        return self.found[Term(Kind.NEW)]

    def parameter(self, name: str) -> Array:
        whole = self.found.get(Term(Kind.PARAMETER, name=name))
        if whole is not None:
            return whole
        # Of some components only: the others are not asked for.
        known = {t.component: values for t, values in self.found.items() if t.name == name and t.component is not None}
        filled = np.full((len(next(iter(known.values()))), self.belief.k), np.nan)
        for component, values in known.items():
            filled[:, component] = values
        return filled
