from .base import (
    BaseEngine as BaseEngine,
    Evidence as Evidence,
    Missing as Missing,
    Plan as Plan,
    Problem as Problem,
    Question as Question,
    Refusal as Refusal,
    pick as pick,
    plan_for as plan_for,
)
from .every_record import EveryRecord as EveryRecord
from .finite.enumeration import Enumeration as Enumeration
from .finite.whole_file import WholeFile as WholeFile
from .identity.identity import Identification as Identification
from .normal.exact import Exact as Exact
from .normal.ranks import Ranks as Ranks
from .pymc.quadrature import Quadrature as Quadrature
from .pymc.sampling import Sampling as Sampling
from .rules.fixed_rule import FixedRule as FixedRule
from .wrong_belief import WrongBelief as WrongBelief
