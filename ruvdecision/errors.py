"""The few kinds of error that the package raises.

Every message says three things: what was wrong, what was got, and what to do.
"""

from __future__ import annotations

__all__ = ["ConvergenceError", "InfeasibleError", "InputError", "RuvError", "UnsupportedError"]


class RuvError(Exception):
    """Base of every error that ruvdecision raises on purpose.

    Parameters
    ----------
    what : str
        What was wrong, as a short sentence without a full stop.
    got : object, optional
        The value that was received. Text is shown as it is, anything else by its ``repr``.
    do : str, optional
        What the caller can do about it, as a sentence.
    """

    def __init__(self, what: str, got: object = None, do: str | None = None) -> None:
        self.what, self.got, self.do = what, got, do
        message = what.rstrip(".")
        if got is not None:
            shown = got if isinstance(got, str) else repr(got)
            message += f"; got {shown if len(shown) <= 200 else shown[:197] + '...'}"
        message += "."
        if do:
            message += " " + do if do.endswith(("?", ".")) else f" {do}."
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process borders when a map runs on several workers.
        return (type(self), (self.what, self.got, self.do))


class InputError(RuvError, ValueError):
    """An argument that cannot be right: a negative variance, an unknown name, a bad shape."""


class UnsupportedError(RuvError, NotImplementedError):
    """A valid request that this engine, mask or loss cannot answer exactly; the message names what can."""


class InfeasibleError(RuvError, ValueError):
    """No candidate meets the threshold; the message names the nearest miss."""


class ConvergenceError(RuvError, RuntimeError):
    """A sampler did not converge, and the caller asked not to go on then."""
