"""Who solves what: the users of a map, the engine of each, and pieces of work that do not depend on each other.

A piece is some users and some masks. How the work is cut depends on users, masks and engines alone, never on who does
it, so that a map is the same for any number of workers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..checks import check_kind
from ..errors import InputError
from ..masks.base import Batch
from ..protocols import Array, Ints, Solution, Value
from ..running.run import Task, run
from ..users.panel import Panel
from ..users.user import Snooper, User
from .base import Problem, Progress, no_progress, plan_for, progress_of_part

Leaves: TypeAlias = list[tuple[str, Any]]
"""Single users, with the names of their columns."""
Columns: TypeAlias = dict[str, Any]
"""Columns of a map, or what goes into them, by name."""


@dataclass(frozen=True)
class Solved:
    """Uncertainties of one user (or panel) for the releases that were finished."""

    value: Value
    before: float
    engine: list[str]
    columns: Columns
    planned: bool = False
    """Whether files were drawn from a belief, and each gave posteriors of its own."""


@dataclass(frozen=True)
class Role:
    """The intruder or the scientist: one user, or a panel of them."""

    name: str
    user: Any

    def describe(self) -> str:
        """The user in words; a panel says how it stands in this role."""
        return str(self.user.in_role(self.name))

    @property
    def leaves(self) -> Leaves:
        """Every single user, with the name of its columns."""
        return self.user.leaves(self.name)  # type: ignore[no-any-return]


def check_user(name: str, user: object) -> Role:
    """A user, a snooper or a panel of them."""
    check_kind(name, user, (User, Snooper, Panel), f"Write {name}=ruv.User(belief, ruv.Record(0), ruv.Quadratic())")
    return Role(name, user)


def solve(
    roles: Sequence[Role],
    masks: Batch,
    *,
    engine: object,
    data: object,
    replicates: int | None,
    seed: np.random.SeedSequence,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    on_progress: Progress = no_progress,
) -> tuple[list[Solved], Ints, Columns]:
    """Solve all users for all masks.

    Returns
    -------
    solved, done, kept
        One `Solved` per role, the positions of the masks that were finished (all of them unless Ctrl-C came), and draws
        that engines were asked to keep, by user and position.
    """
    leaves = [leaf for role in roles for leaf in role.leaves]
    problem = Problem((), masks, data, replicates, seed)
    alone = [plan_for(engine, problem.of_user(user)) for _, user in leaves]
    # Users who share their posterior draws are solved together: one belief, one engine that can.
    groups: dict[object, list[int]] = {}
    for i, plan in enumerate(alone):
        groups.setdefault(plan.group if plan.scheduling_engine.shares else i, []).append(i)
    jobs = list(groups.values())
    plans = [alone[job[0]].solved_together([alone[i].problem.user for i in job]) for job in jobs]
    apart = executor is not None or checkpoint is not None
    cut = [plan.pieces if apart or plan.scheduling_engine.always_cut else [list(range(len(masks)))] for plan in plans]
    pieces = [(j, group) for j, own in enumerate(cut) for group in own]
    # Users of the same release stand side by side, so that what is finished early is whole releases.
    pieces.sort(key=lambda piece: piece[1][0])
    results: list[Any] = []
    if not apart:
        try:
            for i, (job, group) in enumerate(pieces):
                watch = progress_of_part(on_progress, i, len(pieces))
                results.append(_finished_solutions(plans[job].run(group, watch, interruptible=True), len(group)))
                if results[-1]["unfinished"]:
                    break
        except KeyboardInterrupt:
            if not results:
                raise
        results += [None] * (len(pieces) - len(results))
    else:
        tasks = []
        for job, group in pieces:
            fits = partial(_is_solved, len(jobs[job]), len(group))
            tasks.append(Task(f"{job}-{_piece_name(group)}", solve_piece, (job, group), fits))
        engines = [plan.choice for plan in alone]
        prints: Columns = {"masks": list(masks), "users": [u for _, u in leaves], "engines": engines}
        prints |= {"data": data, "replicates": replicates, "seed": (seed.entropy, tuple(seed.spawn_key))}
        shared = [(plan.choice, plan.problem) for plan in plans]
        places: Columns = {"executor": executor, "checkpoint": checkpoint, "fingerprint": lambda: prints}
        results = run(tasks, shared=shared, **places, on_progress=on_progress).results
        if not any(r is not None for r in results):
            raise KeyboardInterrupt
    return _gather_results(
        roles, leaves, jobs, pieces, results, len(masks), [p.scheduling_engine.draws_files for p in alone]
    )


def solve_piece(shared: Sequence[tuple[object, Problem]], job: int, group: Sequence[int]) -> Columns:
    """One piece of work, on any machine."""
    choice, problem = shared[job]
    return _finished_solutions(plan_for(choice, problem.for_masks(group)).run(), len(group))


def _finished_solutions(solutions: Sequence[Solution], count: int) -> Columns:
    """Solutions as plain arrays, and the masks that were not finished."""
    missing = np.any([s.diagnostics.get("unfinished", np.zeros(count, dtype=bool)) for s in solutions], axis=0)
    return {
        "solutions": [_solution_arrays(s, count) for s in solutions],
        "unfinished": np.flatnonzero(missing).tolist(),
    }


def _solution_arrays(solution: Solution, count: int) -> Columns:
    return {
        "uncertainty": np.broadcast_to(np.asarray(solution.uncertainty, dtype=np.float64), (count,)),
        "error": np.broadcast_to(np.asarray(solution.error, dtype=np.float64), (count,)),
        "before": float(solution.before),
        "engine": solution.words(count),
        "diagnostics": {k: list(v) if isinstance(v, tuple) else v for k, v in solution.diagnostics.items()}
        | ({"before_error": [float(solution.before_error)] * count} if solution.before_error else {}),
        "draws": dict(solution.draws),
    }


def _is_solved(users: int, count: int, found: Columns) -> bool:
    """Whether a stored result has the shape of so many users' solutions for so many masks."""
    if len(found["solutions"]) != users or (type(found["unfinished"]), len(found["unfinished"])) != (list, 0):
        return False
    for part in found["solutions"]:
        columns = [part["engine"], *part["diagnostics"].values()]
        numbers = [part["uncertainty"], part["error"]]
        if not (
            all(x.shape == (count,) and x.dtype == np.float64 for x in numbers)
            and type(part["before"]) is float
            and all(type(word) is str for word in part["engine"])
            and all(len(entries) == count for entries in columns)
            and all(e is None or _is_entry(e) for entries in columns for e in entries)
            and part["draws"] == {}
        ):
            return False
    return True


def _is_entry(value: object) -> bool:
    """Whether a value is one number, flag or text."""
    array = np.asarray(value)
    return array.ndim == 0 and array.dtype.kind in "biufU"


# -- cutting ---------------------------------------------------------------------------------------------


def _piece_name(group: Sequence[int]) -> str:
    return f"{group[0]}" if len(group) == 1 else f"{group[0]}-{group[-1]}-{len(group)}"


# -- gathering -------------------------------------------------------------------------------------------


def _gather_results(
    roles: Sequence[Role],
    leaves: Sequence[tuple[str, Any]],
    jobs: list[list[int]],
    pieces: Sequence[tuple[int, Sequence[int]]],
    results: Sequence[Any],
    count: int,
    planned: Sequence[bool],
) -> tuple[list[Solved], Ints, Columns]:
    value, error = np.full((len(leaves), count), np.nan), np.full((len(leaves), count), np.nan)
    before = np.full(len(leaves), np.nan)
    words = [[""] * count for _ in leaves]
    columns: list[dict[str, list[Any]]] = [{} for _ in leaves]
    done = np.ones((len(leaves), count), dtype=bool)
    kept: Columns = {}
    for (job, group), result in zip(pieces, results, strict=True):
        for place, leaf in enumerate(jobs[job]):
            if result is None:
                done[leaf, group] = False
                continue
            done[leaf, [group[i] for i in result["unfinished"]]] = False
            part = result["solutions"][place]
            value[leaf, group], error[leaf, group], before[leaf] = part["uncertainty"], part["error"], part["before"]
            for name, entries in part["diagnostics"].items():
                if name == "unfinished":
                    continue
                # Text in some piece and a number in another: text, in all of them.
                column = columns[leaf].setdefault(name, [None] * count)
                for i, entry in zip(group, entries, strict=True):
                    column[i] = entry
            for i, word in zip(group, part["engine"], strict=True):
                words[leaf][i] = word
            for i, draws in part["draws"].items():
                kept.setdefault(leaves[leaf][0], {})[group[int(i)]] = draws
    rows = np.flatnonzero(done.all(axis=0))
    if not len(rows):
        raise KeyboardInterrupt
    for leaf, own in enumerate(columns):
        reasons = [str(word) for word in own.get("trouble", ()) if word]
        if reasons and np.isnan(value[leaf]).all():
            # One release that fails is marked; if all do, something is wrong with the study.
            raise InputError(reasons[0], "the same for every release", "Look at the model, or at the masks")
    index = {name: i for i, (name, _) in enumerate(leaves)}
    solved = []
    for role in roles:
        found: Columns = {}
        mine = [index[name] for name, _ in role.leaves]
        total, start = _merge_members(
            role.name, role.name, role.user, index, value[:, rows], error[:, rows], before, found
        )
        # Few different ones come again and again: each is put together once.
        keys = list(zip(*(words[i] for i in mine), strict=True))
        joined = {key: " / ".join(dict.fromkeys(key)) for key in set(keys)}
        texts = [joined[keys[r]] for r in rows.tolist()]
        for name, _ in role.leaves:
            found |= {
                f"{name}_{key}": _as_column([column[r] for r in rows]) for key, column in columns[index[name]].items()
            }
        solved.append(Solved(total, start, texts, found, any(planned[i] for i in mine)))
    return solved, rows, kept


def _merge_members(
    role: str, name: str, user: Any, index: dict[str, int], value: Array, error: Array, before: Array, columns: Columns
) -> tuple[Value, float]:
    """The uncertainty of a user, or of a panel from its members'; members' curves become columns."""
    if not user.members:
        return Value(value[index[name]], error[index[name]]), float(before[index[name]])
    parts, starts = [], []
    for label, member in zip(user.names, user.members, strict=True):
        own = f"{name}[{label}]"
        part, start = _merge_members(role, own, member, index, value, error, before, columns)
        columns |= {f"{own}_uncertainty": part.value, f"{own}_error": part.error}
        parts.append(part)
        starts.append(start)
    return user.merge(parts, role, before=starts), user.merge_before(starts, role)


def _as_column(entries: list[Any]) -> Any:
    if any(isinstance(e, str) for e in entries):
        return ["" if e is None else str(e) for e in entries]
    return np.array([np.nan if e is None else e for e in entries])
