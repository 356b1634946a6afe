"""The users of a map in a report: in words, in formulas, and panels member by member.

Formulas are read from the objects: what users believe, what they want, what they pay, and the U that follows. Plain
letters do: they need no program to be set, and they can be searched, copied and read aloud. A belief, target or loss of
somebody else's may have a method ``formula()`` that gives its line (or lines); without one it is named in words only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from .. import losses, targets
from ..beliefs import FiniteBelief, NormalBelief, PyMCBelief, TableBelief
from ..checks import as_tuple, name_of
from ..decide import Choice
from ..maps.rumap import RUMap
from ..maps.show import format_number, format_value
from ..protocols import Belief, Loss, Target
from ..users.panel import Panel
from ..users.user import Snooper, User
from .document import Fold, Formula, Items, Paragraph, ReportBlock, Table, TableRow

ROLES = ("intruder", "scientist")
#: Panels with more members than this are folded.
OPEN = 12
_MEMBER = re.compile(r"^(intruder|scientist)(\[.*\])_uncertainty$", re.DOTALL)
LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
GREEK = dict(zip(["mu", "sigma", "theta", "tau", "beta", "alpha", "lambda", "phi", "pi"], "μσθτβαλφπ", strict=True))
#: Matrices with more rows than this are not written out.
SMALL = 4
#: What is said of a thing, by its kind.
Sayings = dict[type, Callable[..., str | list[str]]]


def users(rumap: RUMap, choice: Choice | None) -> list[ReportBlock]:
    """Who the users are, what U they have before any release, and how risk and utility follow from U."""
    blocks: list[ReportBlock] = []
    for place, who in enumerate(ROLES):
        user = None if rumap.users is None else rumap.users[place]
        said = str(rumap.attrs.get(who, ""))
        # A map that was joined or renamed has other words than its first users: then the words are right.
        if user is not None and said not in ("", user.describe(), user.in_role(who)):
            user = None
        if isinstance(user, Panel):
            blocks += _panel_blocks(user, who)
        elif said or user is not None:
            blocks += _user_in_words(said or user.describe(), who)  # type: ignore[union-attr]
            blocks += [] if user is None else _formula_block(user, who)
        elif who in rumap.uncertainties:
            blocks.append(Paragraph(f"The map does not say who the {who} is."))
        blocks += _member_table(rumap, who, choice)
    return [*blocks, Items(_scores_in_words(rumap))]


def member_columns(rumap: RUMap, who: str) -> dict[str, str]:
    """Columns with the uncertainty of each member of a panel, by the member's name; panels in panels too."""
    found = {k: _MEMBER.match(k) for k in rumap.columns}
    return {m[2][1:-1].replace("][", ", "): k for k, m in found.items() if m is not None and m[1] == who}


def _user_in_words(said: str, who: str) -> list[ReportBlock]:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # A user without a name of his own is called by his role.
    lines = [re.sub(r"^The (user|snooper) (?=believes |takes )", f"The {who} ", line) for line in lines]
    if lines and not lines[0].lower().startswith(f"the {who}"):
        lines.insert(0, f"The {who}, in the study's words:")
    return [*map(Paragraph, lines)]


def _formula_block(user: User | Snooper | Panel, who: str) -> list[ReportBlock]:
    lines = formulas(user, who)
    return [Formula(lines)] if lines else []


def _panel_blocks(panel: Panel, who: str) -> list[ReportBlock]:
    head = panel.describe(who).partition(f" {panel.names[0]}: ")[0]
    blocks: list[ReportBlock] = [Paragraph(f"The {who} is a panel. {head}"), *_formula_block(panel, who)]
    inside: list[ReportBlock] = []
    for name, member in zip(panel.names, panel.members, strict=True):
        if isinstance(member, Panel):
            inside += [Paragraph(f"{name} is a panel itself."), *_panel_blocks(member, who)[1:]]
            continue
        said = re.sub(r"^The (user|snooper) ", "", member.describe())
        inside += [Paragraph(f"{name}: {said}"), *_formula_block(member, who)]
    return [*blocks, *(inside if len(panel.members) <= OPEN else [Fold(f"The {len(panel.members)} members", inside)])]


def _member_table(rumap: RUMap, who: str, choice: Choice | None) -> list[ReportBlock]:
    """How much each member of a panel still does not know."""
    columns = member_columns(rumap, who)
    if not columns:
        return []
    rows = []
    for name, column in columns.items():
        u = np.asarray(rumap.columns[column], dtype=float)
        known = u[~np.isnan(u)]
        cells = [format_number(float(f(known)), 3) if known.size else "none" for f in (np.min, np.max)]
        if choice is not None:
            error = rumap.columns.get(column.removesuffix("_uncertainty") + "_error", np.zeros(len(rumap)))
            cells.insert(0, format_value(float(u[choice.position]), float(error[choice.position]), 3))
        rows.append(TableRow((name, *cells)))
    after = ["U after the chosen release"] if choice is not None else []
    head = ("member", *after, "least U of any release", "largest U")
    table = Table(f"Members of the {who}s' panel ({len(rows)})", head, rows)
    return [table.fold_if_long(OPEN, f"What each of the {len(rows)} members still does not know")]


def _scores_in_words(rumap: RUMap) -> list[str]:
    sentences = []
    for axis in (rumap.axis("risk"), rumap.axis("utility")):
        if axis.score.column is not None:
            sentences.append(f"{axis.role.title()}: the column {axis.score.name}.")
            continue
        sentences.append(f"{axis.role.title()}: {axis.score.words(axis.who)}.")
        before = np.unique(axis.before)
        if before.size == 1 and not np.isnan(before[0]):
            sentences[-1] += f" Before any release that loss is U0 = {format_number(float(before[0]))}."
    return sentences


# -- formulas ------------------------------------------------------------------------------------------


def formulas(user: User | Snooper | Panel, role: str = "intruder") -> list[str]:
    """The lines that say what a user does; of a panel, how one U is made of its members'.

    >>> from ruvdecision.users.user import User
    >>> user = User(NormalBelief(records=10, variance=2, prior_variance=5), targets.Record(0), losses.Quadratic())
    >>> formulas(user)[0]
    'xᵢ | μ ~ N(μ, 2) for i = 0, …, 9; μ ~ N(0, 5)'
    >>> formulas(user)[-1]
    'U = min over d of E[ L(d, θ) | release ] = Var(θ | release), averaged over releases'
    """
    if isinstance(user, Panel):
        return [_panel_in_words(user, role)]
    belief = _formula_lines(user.belief, "") if user.belief is not None else []
    target, loss = (
        _formula_lines(user.target, user.target.describe()),
        _formula_lines(user.loss, str(user.loss), _has_vector_target(user)),
    )
    found = [*belief, *(f"θ = {line}" for line in target), *(f"L(d, θ) = {line}" for line in loss)]
    if isinstance(user, Snooper):
        return [*found, f"U = E[ L(t(release), θ) ], where t takes {user.estimator.describe()}"]
    return [*found, *_uncertainty_formula(user)]


def _uncertainty_formula(user: User) -> list[str]:
    among = "d" if user.actions is None else "d among the values allowed"
    among = "d among the values of θ" if user.actions is not None and not user.lists_estimates else among
    each, target = user.target.asks_each, cast(targets.EachRecord, user.target)
    u = "Uᵢ" if each else "U"
    last = []
    if each:
        how: str | float = target.aggregate
        known: dict[str | float, str] = {"max": "min over i of Uᵢ", "mean": "mean over i of Uᵢ"}
        last = [f"U = {known.get(how) or f'the quantile of the Uᵢ at level {format_number(1 - float(how))}'}"]
    if user.is_rightly_informed:
        closed = _by_kind(_CLOSED, user.loss, "", _has_vector_target(user)) if user.actions is None else ""
        return [f"{u} = min over {among} of E[ L(d, θ) | release ]{closed}, averaged over releases", *last]
    over_masks = "the sum over masks λ of P(λ | release) E[ L(d, θ) | release, λ ]"
    inner = "E[ L(d, θ) | release ]" if user.knows_mask else over_masks
    rule = f"d*(release) = argmin over {among} of {inner}, by the user's own belief"
    whose = "the agency's belief" if user.truth is not None else "the user's belief"
    used = "" if user.knows_mask else " and the mask that was really used"
    truth = [f"Truth: {line}" for line in _formula_lines(user.truth, "")] if user.truth is not None else []
    return [rule, *truth, f"{u} = E[ L(d*(release), θ) ] over {whose}{used}", *last]


def _panel_in_words(panel: Panel, role: str) -> str:
    how = panel.combining_rule(role)
    unit = "" if panel.unit is None else " / Uₘ before the release" if panel.unit == "before" else " / unitₘ"
    one = f"Uₘ{unit}"
    if how == "worst":
        return f"U = {'min' if role == 'intruder' else 'max'} over members m of {one}"
    if how == "mean":
        weights = ""
        if panel.weights is not None:
            shown = ", ".join(format_number(w, 3) for w in panel.weights[:12])
            weights = f", w = ({shown}{', …' if len(panel.weights) > 12 else ''})"
        return f"U = sum over members m of wₘ {one}{weights}" if weights else f"U = mean over members m of {one}"
    return f"U = {name_of(how) or 'f'}({one} for all members m)"


def _formula_lines(thing: Belief | Target | Loss, otherwise: str, *several: bool) -> list[str]:
    """What the object itself says, what is known about its kind or the nearest kind above it, or something else."""
    own = getattr(thing, "formula", None)
    found = own() if callable(own) else _by_kind(_FORMULAS, thing, otherwise, *several)
    return [line for line in as_tuple(found) if line]


def _by_kind(table: Sayings, thing: object, otherwise: str, *several: bool) -> str | list[str]:
    """What a table says about the kind of a thing, or about the nearest kind above it."""
    known = next((table[kind] for kind in type(thing).__mro__ if kind in table), None)
    return otherwise if known is None else known(thing, *several)


def _has_vector_target(user: User | Snooper) -> bool:
    """Whether the target is a vector, as far as one can see."""
    target = user.target
    if target.is_a(targets.Kind.FILE):
        return True
    one = target.term is None and not target.is_order_statistic and not target.asks_each
    if target.is_a(targets.Kind.PARAMETER):
        one = target.terms[0].component is not None
    return not one and int(getattr(user.belief, "k", 1) or 1) > 1


# -- beliefs -------------------------------------------------------------------------------------------


def _normal_belief_formula(belief: NormalBelief) -> str:
    n, covariance = belief.records, _matrix_formula(belief.record_covariance, "Σ")
    index = "i = 0" if n == 1 else f"i = 0, …, {n - 1}"
    if belief.mu_covariance is None:
        prior = "; p(μ) constant"
    elif not np.any(belief.mu_covariance):
        prior = f"; μ = {_vector_formula(belief.mu_mean)}"
    else:
        prior = f"; μ ~ N({_vector_formula(belief.mu_mean)}, {_matrix_formula(belief.mu_covariance, 'Σ₀')})"
    return f"xᵢ | μ ~ N(μ, {covariance}) for {index}{prior}"


def _finite_belief_formula(belief: FiniteBelief) -> str:
    states = len(belief.states)
    if belief.likelihood is None:
        return f"P(x = vⱼ) = pⱼ for j = 1, …, {states}"
    name = GREEK.get(belief.name, belief.name)
    records = f"P(xᵢ = k | {name} = vⱼ) = qⱼₖ for {belief.records} records, independent"
    return f"P({name} = vⱼ) = pⱼ for j = 1, …, {states}; {records}"


def _table_belief_formula(belief: TableBelief) -> str:
    known = [w for w, given in (("the known cells", belief.cells), ("the known margins", belief.margins)) if given]
    agree = f" and c agrees with {' and '.join(known)}" if known else ""
    weight = "constant" if belief.uniform else "∏ Γ(cₖ + aₖ) / (Γ(aₖ) cₖ!)"
    shape = " × ".join(map(str, belief.shape))
    return f"p(c) ∝ {weight} over tables c of {shape} counts with sum {belief.total}{agree}"


def _model_formula(belief: PyMCBelief) -> list[str]:
    # The model's own account of itself: names, laws and their arguments; constants that are arrays are not shown.
    model = belief.built(belief.size or 2).model
    return [" ".join(line.split()) for line in str(model.str_repr(formatting="plain")).splitlines() if line.strip()]


# -- targets -------------------------------------------------------------------------------------------


def _parameter_symbol(target: targets.Parameter) -> str:
    name = GREEK.get(target.name, target.name)
    return name if target.component is None else f"{name}{_subscript(target.component)}"


def _functional_formula(target: targets.Functional) -> str:
    of = ", ".join(line for part in target.parts for line in _formula_lines(part, part.describe()))
    return f"f({of})" + (f", {target.name}" if target.name else "")


# -- losses --------------------------------------------------------------------------------------------


def _quadratic_formula(loss: losses.Quadratic, several: bool) -> str:
    weights = np.asarray(loss.weights, dtype=float)
    if weights.ndim == 2:
        return f"(d − θ)ᵀ W (d − θ), W = {_matrix_formula(weights, 'W')}"
    return _sum_over_components("({} − {})²", loss.weights, several)


def _huber_formula(loss: losses.Huber, several: bool) -> str:
    delta, rest = format_number(loss.delta), format_number(loss.delta**2 / 2)
    return (
        _sum_over_components("h({} − {})", loss.weights, several)
        + f", h(e) = e²/2 if |e| ≤ {delta}, else {delta} |e| − {rest}"
    )


def _linex_formula(loss: losses.Linex, several: bool) -> str:
    a, b = format_number(loss.a), format_number(loss.b)
    one = f"exp({a} e) − {a} e − 1"
    one = one if loss.b == 1 and not several else f"({one})" if loss.b == 1 else f"{b} ({one})"
    return ("Σₖ " if several else "") + f"{one}, e = {'dₖ − θₖ' if several else 'd − θ'}"


def _zero_one_formula(loss: losses.ZeroOne, several: bool) -> str:
    if not np.any(np.asarray(loss.tolerance)):
        return "1[d ≠ θ]"
    return f"1[|d − θ| > {_vector_formula(np.atleast_1d(loss.tolerance))}]" + (" in any component" if several else "")


def _interval_score_formula(loss: losses.IntervalScore, several: bool) -> str:
    alpha = format_number(2 / (1 - loss.level), 4)
    return (
        _sum_over_components(f"u − l + {alpha} (l − {{1}})₊ + {alpha} ({{1}} − u)₊", loss.weights, several)
        + ", d = (l, u)"
    )


_FORMULAS: Sayings = {
    NormalBelief: _normal_belief_formula,
    FiniteBelief: _finite_belief_formula,
    TableBelief: _table_belief_formula,
    PyMCBelief: _model_formula,
    targets.Record: lambda t: f"x{_subscript(t.row)}",
    targets.Records: lambda t: "(x₀, …, xₙ₋₁)",
    targets.EachRecord: lambda t: "xᵢ, for every i" if t.rows is None else f"xᵢ, for each of {len(t.rows)} records i",
    targets.NewRecord: lambda t: "xₙ, a record that is not in the file",
    targets.Parameter: _parameter_symbol,
    targets.Average: lambda t: "(x₀ + … + xₙ₋₁) / n",
    targets.Maximum: lambda t: "max over i of xᵢ",
    targets.Minimum: lambda t: "min over i of xᵢ",
    targets.OrderStatistic: lambda t: f"x₍{_subscript(t.order)}₎",
    targets.Percentile: lambda t: f"x₍ₖ₎, k = ⌈{format_number(t.p)} n⌉",
    targets.Functional: _functional_formula,
    targets.Identity: lambda t: f"J, {t.describe()}",
    losses.Quadratic: _quadratic_formula,
    losses.Absolute: lambda x, several: _sum_over_components("|{} − {}|", x.weights, several),
    losses.Power: lambda x, several: _sum_over_components("|{} − {}|^" + format_number(x.p), x.weights, several),
    losses.Huber: _huber_formula,
    losses.Pinball: lambda x, several: _sum_over_components(
        "({1} − {0}) (" + format_number(x.q) + " − 1[{1} < {0}])", x.weights, several
    ),
    losses.Linex: _linex_formula,
    losses.ZeroOne: _zero_one_formula,
    losses.LogScore: lambda x, several: "−log d(θ), d a distribution",
    losses.KullbackLeibler: lambda x, several: "−Σₖ θₖ log dₖ" if x.entropy else "Σₖ θₖ log(θₖ / dₖ)",
    losses.CRPS: lambda x, several: (
        _sum_over_components("E|T − {1}| − E|T − T′|/2", x.weights, several) + ", T and T′ drawn from d, a distribution"
    ),
    losses.IntervalScore: _interval_score_formula,
}


def _variance_formula(loss: losses.Quadratic, several: bool) -> str:
    weights = np.asarray(loss.weights, dtype=float)
    if weights.ndim == 0 and not several:
        return f" = {'' if weights == 1 else format_number(float(weights)) + ' '}Var(θ | release)"
    return " = tr(Cov(θ | release))" if weights.ndim == 0 and weights == 1 else " = tr(W Cov(θ | release))"


#: What the least expected loss is, where it has a name.
_CLOSED: Sayings = {
    losses.Quadratic: _variance_formula,
    losses.ZeroOne: lambda x, several: "" if np.any(x.tolerance) else " = 1 − max over t of P(θ = t | release)",
    losses.LogScore: lambda x, several: " = the entropy of θ given the release",
    losses.KullbackLeibler: lambda x, several: " = the entropy of E[ θ | release ]" if x.entropy else "",
}


def _sum_over_components(one: str, weights: ArrayLike, several: bool) -> str:
    """A loss of one component, weighted and summed if there are several."""
    w = np.asarray(weights, dtype=float)
    if w.ndim == 0:
        scale = "" if w == 1 else f"{format_number(float(w))} "
        return scale + ("Σₖ " + one.format("dₖ", "θₖ") if several else one.format("d", "θ"))
    return f"Σₖ wₖ {one.format('dₖ', 'θₖ')}, w = {_vector_formula(w.ravel())}"


def _subscript(index: int) -> str:
    return str(index).translate(LOW).replace("-", "₋")


def _vector_formula(values: ArrayLike) -> str:
    flat = np.ravel(np.asarray(values, dtype=float)).tolist()
    if len(flat) == 1:
        return format_number(flat[0])
    return f"({', '.join(map(format_number, flat))})" if len(flat) <= SMALL else f"a given vector of {len(flat)}"


def _matrix_formula(values: ArrayLike, name: str) -> str:
    matrix = np.atleast_2d(np.asarray(values, dtype=float))
    if matrix.size == 1:
        return format_number(float(matrix[0, 0]))
    rows = "; ".join(", ".join(map(format_number, row)) for row in matrix.tolist())
    return f"[{rows}]" if len(matrix) <= SMALL else f"{name} as given"
