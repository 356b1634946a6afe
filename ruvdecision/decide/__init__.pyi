from .choice import Choice as Choice, choose as choose
from .compare import (
    Explanation as Explanation,
    dominated_releases as dominated_releases,
    explain as explain,
    frontier as frontier,
)
from .criteria import (
    Criterion as Criterion,
    ExpectedLoss as ExpectedLoss,
    Lexicographic as Lexicographic,
    MostUseful as MostUseful,
    Weighted as Weighted,
)
from .dominance import not_dominated as not_dominated, undominated as undominated
from .probability import Errors as Errors, probabilities as probabilities
