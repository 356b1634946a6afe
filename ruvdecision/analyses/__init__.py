"""Questions asked of maps, users and masks: what is best, what is possible, how sure, what it is worth."""

from .blackwell import Order, dominated_whatever, garbling, refines
from .calibrate import Calibration, calibrate
from .limit import Limit, limit
from .optimise import Contender, MaskFamily, Optimum, Search, optimise
from .publishing import PublishingPrice, price_of_publishing
from .record_risk import RecordRisk, record_risk
from .sensitivity import Sensitivity, Variation, sensitivity
from .sensitivity.power import power_scaling
from .worth import Worth, one_more_digit, one_more_record, one_more_variable, worth

__all__ = [
    "Calibration",
    "Contender",
    "Limit",
    "MaskFamily",
    "Optimum",
    "Order",
    "PublishingPrice",
    "RecordRisk",
    "Search",
    "Sensitivity",
    "Variation",
    "Worth",
    "calibrate",
    "dominated_whatever",
    "garbling",
    "limit",
    "one_more_digit",
    "one_more_record",
    "one_more_variable",
    "optimise",
    "power_scaling",
    "price_of_publishing",
    "record_risk",
    "refines",
    "sensitivity",
    "worth",
]
